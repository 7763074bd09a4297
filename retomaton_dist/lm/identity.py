"""Which model it is, so that every process, on every node and later, works with the very same.

The driver identifies the model once, by the user's words. What is sent to workers and kept in
the store is a place that means the same everywhere, and fingerprints of what lay there; whoever
loads the model checks that it still does.
"""

import re
import socket
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from retomaton_dist.errors import DamagedStore, ModelError
from retomaton_dist.lm.source import (
    HUB_ID,
    ModelSource,
    Wanted,
    find_model,
    find_place,
    fingerprint,
)
from retomaton_dist.lm.tokenizer import Tokenizer, load_transformers_tokenizer, wrap
from retomaton_dist.settings import ModelSettings

SHA_256 = re.compile(r"[0-9a-f]{64}")
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class ModelIdentity:
    """A model, whatever it is called.

    `name` is what the user wrote; `place` the absolute path of a folder or GGUF file, or the id
    of a hub model, and `revision` the latter's commit. `weights` is the fingerprint of config
    and weights, None where the tokenizer alone was needed; `tokenizer` that of the tokenizer.
    """

    name: str
    place: str
    revision: str | None
    weights: str | None
    tokenizer: str

    def as_facts(self) -> dict[str, str | None]:
        """The identity as JSON, for a manifest."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Any) -> "ModelIdentity":
        """What `as_facts` made; anything else is DamagedStore."""
        names, wrong = {field.name for field in fields(cls)}, ""
        if not isinstance(facts, dict) or facts.keys() != names:
            wrong = f"it has not just {', '.join(sorted(names))}"
        else:
            found = cls(**facts)
            for name in sorted(names):
                if not _is_sound(found, name):
                    wrong = f"{name} is {str(facts[name])[:80]!r}"
        if wrong:
            raise DamagedStore(
                f"what the store says of its model is damaged: {wrong}; restore it from a copy, or "
                "build the store anew"
            )
        return found

    def __str__(self) -> str:
        return self.place if self.revision is None else f"{self.place} at {self.revision}"


def _is_sound(identity: ModelIdentity, name: str) -> bool:
    value = getattr(identity, name)
    if value is None:
        return name in ("revision", "weights")
    if not isinstance(value, str):
        return False
    if name == "place":
        is_local = identity.revision is None
        return Path(value).is_absolute() if is_local else HUB_ID.fullmatch(value) is not None
    patterns = {"revision": COMMIT, "weights": SHA_256, "tokenizer": SHA_256}
    return name not in patterns or patterns[name].fullmatch(value) is not None


@dataclass(frozen=True)
class ModelSpec:
    """All that it takes to load the same model anywhere; on which device is said there."""

    identity: ModelIdentity
    key: str
    dtype: str | None
    trust_remote_code: bool


def identify(settings: ModelSettings, weights: bool = True) -> tuple[ModelSpec, Tokenizer]:
    """Find the model that the user means and take its fingerprints; also return its tokenizer.

    Without `weights` these need not be there. Raises ModelError if anything is amiss.
    """
    source = find_model(settings, weights)
    tokenizer = _load(source, settings.trust_remote_code)
    prints = fingerprint(source) if weights else None, tokenizer.fingerprint
    identity = ModelIdentity(source.name, source.place, source.revision, *prints)
    spec = ModelSpec(identity, settings.key, settings.dtype, settings.trust_remote_code)
    return spec, tokenizer


def locate(spec: ModelSpec) -> ModelSource:
    """Return the files of a model on this machine, unread, or raise ModelError."""
    identity = spec.identity
    wanted = Wanted(spec.trust_remote_code, weights=identity.weights is not None)
    try:
        return find_place(identity.name, identity.place, identity.revision, wanted)
    except ModelError as error:
        raise ModelError(f"{identity} cannot be used on {socket.gethostname()}: {error}") from error


def locate_checked(spec: ModelSpec) -> ModelSource:
    """Return the files of a model on this machine, having read them: ModelError if others."""
    assert spec.identity.weights is not None, "identified without its weights"
    source = locate(spec)
    if fingerprint(source) != spec.identity.weights:
        raise _another(spec, "weights or config")
    return source


def load_tokenizer(spec: ModelSpec) -> Tokenizer:
    """Load the tokenizer that comes with the model: ModelError if it is another one."""
    tokenizer = _load(locate(spec), spec.trust_remote_code)
    if tokenizer.fingerprint != spec.identity.tokenizer:
        raise _another(spec, "tokenizer")
    return tokenizer


def _load(source: ModelSource, trust_remote_code: bool) -> Tokenizer:
    return wrap(source.name, load_transformers_tokenizer(source, trust_remote_code))


def _another(spec: ModelSpec, what: str) -> ModelError:
    return ModelError(
        f"on {socket.gethostname()}, {spec.identity} is not the model that was identified as "
        f"{spec.identity.name!r} (other {what}); put the same files there, or name the right model "
        "with --model"
    )
