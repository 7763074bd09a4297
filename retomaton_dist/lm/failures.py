"""What goes wrong inside torch and transformers, said in the words of this project.

Both are imported where they are needed: a tokenizer decodes without either.
"""

import contextlib
import io
from collections.abc import Iterator

from retomaton_dist.errors import ModelError, OutOfMemory, RetomatonError
from retomaton_dist.lm.source import ModelSource

MEMORY_MESSAGES = ("not enough memory", "DefaultCPUAllocator", "out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether this is one of the ways in which torch says that memory ran out."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(m in str(error) for m in MEMORY_MESSAGES)


@contextlib.contextmanager
def memory_guard(advice: str) -> Iterator[None]:
    """Turn running out of memory into OutOfMemory with this advice."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(f"{advice} ({_first_line(error)})") from error


@contextlib.contextmanager
def loading(what: str, source: ModelSource) -> Iterator[None]:
    """Turn what transformers raises over a model's files into ModelError; keep stderr quiet."""
    silence()
    try:
        with (
            memory_guard(f"the model {source.name!r} does not fit in memory; use fewer --workers"),
            # The progress bars of GGUF conversion obey no setting.
            contextlib.redirect_stderr(io.StringIO()),
        ):
            yield
    except RetomatonError:
        raise
    # Over files they cannot use, transformers and tokenizers raise anything, Exception included.
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"model {source.name!r} comes with its own code, which is not run unless you trust "
                "it and say so with --trust-remote-code"
            ) from error
        raise ModelError(
            f"the {what} of model {source.name!r} cannot be loaded: {_first_line(error)}"
        ) from error


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def silence() -> None:
    """Keep the warnings and progress bars of transformers off stderr in this process."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
