"""One error hierarchy for the whole project.

Every error a user can cause, or can do something about, is a `RetomatonError`. Its message is
one line that says what is wrong, where, and what to do. Anything else that escapes is a bug.
"""


class RetomatonError(Exception):
    """Base of all errors that are reported without a traceback (exit code 2)."""


class BadInput(RetomatonError):
    """An argument, setting or file of the user's cannot be used."""


class StoreError(RetomatonError):
    """Something about a store on disk."""


class NotAStore(StoreError):
    """The folder is missing, is not a store, or was written by a newer format."""


class DamagedStore(StoreError):
    """Something in a store is missing, truncated or altered."""


class ConfigMismatch(StoreError):
    """A stage was begun with other inputs or settings than the ones now asked for."""


class StoreLocked(StoreError):
    """Another process is writing this store."""


class WriteFailed(StoreError):
    """The file system refused a write: full, read-only, or not permitted."""


class StageMissing(StoreError):
    """What is asked for needs a stage that this store has not finished."""
