"""The model's tokenizer: texts to token ids with their byte offsets, and back."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.failures import loading
from retomaton_dist.lm.offsets import Offsets, byte_offsets, offsets_by_length, token_lengths
from retomaton_dist.lm.source import ModelSource, require_gguf

Encoded = tuple[NDArray[np.int32], Offsets]


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A fast tokenizer, without the special tokens that it might add of its own accord.

    `bos` is what the model reads before a document: its BOS, else its EOS, None if it has
    neither. `eos` may end a document. Every id is less than `vocabulary`.
    """

    name: str
    bos: int | None
    eos: int | None
    vocabulary: int
    fingerprint: str
    backend: Any
    lengths: NDArray[np.int64] | None

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Return for each text its token ids and the byte offset where each token begins."""
        if self.lengths is None:
            return self._encode_tracked(texts)
        encodings = self.backend.encode_batch_fast(texts, add_special_tokens=False)
        encoded = []
        for text, encoding in zip(texts, encodings, strict=True):
            ids = np.asarray(encoding.ids, dtype=np.int32)
            size = len(text) if text.isascii() else len(text.encode())
            offsets = offsets_by_length(ids, self.lengths, size)
            encoded.append(self._encode_tracked([text])[0] if offsets is None else (ids, offsets))
        return encoded

    def _encode_tracked(self, texts: Sequence[str]) -> list[Encoded]:
        """The same where the tokenizer itself has to tell where tokens begin."""
        encoded = []
        encodings = self.backend.encode_batch(texts, add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            starts = np.array([start for start, _ in encoding.offsets], np.int64)
            ids = np.asarray(encoding.ids, dtype=np.int32)
            encoded.append((ids, byte_offsets(text, starts)))
        return encoded

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of these tokens, special tokens included."""
        return str(self.backend.decode([int(i) for i in ids], skip_special_tokens=False))


def load_transformers_tokenizer(source: ModelSource, trust_remote_code: bool) -> Any:
    """Load the model's tokenizer as transformers has it, or raise ModelError."""
    from transformers import AutoTokenizer  # slow to import, needed for loading alone

    require_gguf(source, "gguf")
    with loading("tokenizer", source):
        tokenizer = AutoTokenizer.from_pretrained(
            **source.arguments(), use_fast=True, trust_remote_code=trust_remote_code
        )
    # Without files transformers makes an empty tokenizer of the model's family.
    names = [name for name in tokenizer.vocab_files_names.values() if name]
    if names and not source.gguf and not any((source.folder / name).exists() for name in names):
        raise ModelError(
            f"model {source.name!r}: {source.folder} has no tokenizer ({', '.join(names)}); "
            "add the files of the tokenizer that the model was trained with"
        )
    return tokenizer


def wrap(name: str, tokenizer: Any) -> Tokenizer:
    """Wrap a tokenizer of transformers; ModelError if it is not a fast one."""
    backend = getattr(tokenizer, "backend_tokenizer", None) if tokenizer.is_fast else None
    if backend is None:
        raise ModelError(
            f"the tokenizer of model {name!r} is not a fast one, so it knows no offsets; "
            "convert it to a tokenizer.json"
        )
    backend.no_truncation()
    backend.no_padding()
    eos = tokenizer.eos_token_id
    bos = eos if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    # BOS and EOS decide what a document's entries are, and are not part of the serialised text.
    identity = f"{bos} {eos} {backend.to_str()}"
    return Tokenizer(
        name=name,
        bos=bos,
        eos=eos,
        vocabulary=1 + max(backend.get_vocab(with_added_tokens=True).values()),
        fingerprint=hashlib.sha256(identity.encode()).hexdigest(),
        backend=backend,
        lengths=token_lengths(backend),
    )


def first_difference(here: Tokenizer, there: Tokenizer) -> str | None:
    """How two tokenizers differ, in a few words; None if they are the same."""
    if here.fingerprint == there.fingerprint:
        return None
    if here.vocabulary != there.vocabulary:
        return f"it has {here.vocabulary:,} tokens here and {there.vocabulary:,} there"
    for token in range(here.vocabulary):
        ours, theirs = here.backend.id_to_token(token), there.backend.id_to_token(token)
        if ours != theirs:
            return f"token {token} is {ours!r} here and {theirs!r} there"
    for name in ("bos", "eos"):
        if getattr(here, name) != getattr(there, name):
            return f"{name} is {getattr(here, name)} here and {getattr(there, name)} there"
    parts, others = (json.loads(one.backend.to_str()) for one in (here, there))
    part = next(name for name in parts if parts[name] != others.get(name))
    return f"the tokens are the same, but not its {part}: texts would be cut in other ways"


def check_vocabulary(tokenizer: Tokenizer, model_vocabulary: int) -> None:
    """Raise ModelError if the tokenizer has ids that the model has no embedding for."""
    if tokenizer.vocabulary > model_vocabulary:
        raise ModelError(
            f"the tokenizer of {tokenizer.name!r} does not match the model: it has token ids up to "
            f"{tokenizer.vocabulary - 1}, the model has {model_vocabulary} tokens; "
            "use the tokenizer that the model was trained with"
        )
