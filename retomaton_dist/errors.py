"""The errors of the system; the hierarchy's root and the store's errors live in `storage`."""

from retomaton_dist.storage.errors import (
    BadInput,
    ConfigMismatch,
    DamagedStore,
    NotAStore,
    RetomatonError,
    StageMissing,
    StoreError,
    StoreLocked,
    WriteFailed,
)

__all__ = [
    "BadInput",
    "ClusterError",
    "ConfigMismatch",
    "CorpusError",
    "DamagedStore",
    "ModelError",
    "NotAStore",
    "OutOfMemory",
    "RetomatonError",
    "StageMissing",
    "StoreError",
    "StoreLocked",
    "WorkerLost",
    "WriteFailed",
]


class CorpusError(BadInput):
    """The corpus is missing, empty, undecodable, or lacks what the settings name."""


class ModelError(BadInput):
    """The language model or its tokenizer cannot be used as asked."""


class ClusterError(RetomatonError):
    """The Ray cluster cannot be reached, or cannot schedule what is asked for."""


class WorkerLost(RetomatonError):
    """A unit's workers died again and again, or did not answer in time."""


class OutOfMemory(RetomatonError):
    """A worker ran out of memory; the message says which setting to lower."""
