"""The models of a store: the LM whose probabilities are mixed, and the one that keys come from.

Often they are one. Keys and queries must come from the very model that the store was made with;
probabilities may come from any LM with the same tokenizer.
"""

from pathlib import Path
from typing import Protocol

import torch

from retomaton_dist.errors import BadInput, ModelError
from retomaton_dist.lm.identity import ModelIdentity, identify
from retomaton_dist.lm.outline import ModelOutline, outline
from retomaton_dist.lm.tokenizer import Tokenizer, check_vocabulary, first_difference
from retomaton_dist.lm.windows import resolve_windows
from retomaton_dist.settings import ModelSettings
from retomaton_dist.storage.store import Store

# Logits of a batch: 512 MB as float32.
MOST_LOGITS = 1 << 27
BATCH_TOKENS = 4096


class WantedModels(Protocol):
    """What a user says of models: where they lie now, and how they are run."""

    @property
    def model(self) -> str | None:
        """The LM whose probabilities are mixed; None: the one that the store was built for."""
        ...

    @property
    def key_model(self) -> str | None:
        """Where the model of the keys is; None: where it was."""
        ...

    @property
    def device(self) -> str | None:
        """None: as when keys were made."""
        ...

    @property
    def trust_remote_code(self) -> bool:
        """Whether code that comes with a model may run."""
        ...


def has_keys(store: Store) -> bool:
    """Whether keys were extracted: without them there is nothing to search or walk."""
    return store.is_done("extract")


def store_lm(store: Store, wanted: WantedModels) -> tuple[ModelOutline, Tokenizer]:
    """The LM whose probabilities are mixed, and its tokenizer.

    It is the one that the store was built for, or the one that is wanted: any with the same
    tokenizer.
    """
    if not has_keys(store):
        if wanted.key_model is not None:
            raise BadInput(f"{store.path} has no keys, so it takes no --key-model: leave it out")
        named = wanted.model or store.stage("tokenize").facts["tokenizer"]
        settings = ModelSettings(model=named, trust_remote_code=wanted.trust_remote_code)
    else:
        settings = _settings(store, _built_for(store), wanted.model, "--model", wanted)
    spec, tokenizer = identify(settings)
    if has_keys(store) and wanted.model is None:
        _check_weights(store, spec.identity, _built_for(store), "--model")
    if spec.identity.tokenizer != store.stage("tokenize").config["tokenizer"]:
        raise BadInput(
            f"the tokenizer of {spec.identity} is not the one that {store.path} was made with"
            f"{_difference(store, tokenizer)}: texts would have other tokens; use a model with the "
            f"store's tokenizer"
        )
    outlined = outline(spec)
    check_vocabulary(tokenizer, outlined.vocabulary)
    return outlined, tokenizer


def other_key_model(store: Store, lm: ModelIdentity, wanted: WantedModels) -> ModelOutline | None:
    """The model that the store's keys came from, if it is not the LM itself; others are refused."""
    if not has_keys(store):
        return None
    made = _key_identity(store)
    if wanted.key_model is None and lm.weights == made.weights:
        return None
    spec, _ = identify(_settings(store, made, wanted.key_model, "--key-model", wanted))
    _check_weights(store, spec.identity, made, "--key-model")
    return None if lm.weights == made.weights else outline(spec)


def windows_of(store: Store, outlined: ModelOutline) -> tuple[int, int]:
    """Context and stride: of the model of the keys as they were made with, else the model's own."""
    if has_keys(store) and outlined.spec.identity.weights == _key_identity(store).weights:
        config = store.stage("extract").config
        return config["context"], config["stride"]
    return resolve_windows(None, None, outlined.max_context)


def device_of(store: Store, asked: str | None) -> str:
    """Where the models run: as asked, as when keys were made, or a GPU if there is one."""
    if asked is None and has_keys(store):
        made: str = store.stage("extract").config["device"]
        return made
    return asked or ("cuda" if torch.cuda.is_available() else "cpu")


def batch_tokens(store: Store, vocabulary: int, asked: int | None = None) -> int:
    """Tokens of one forward pass over whole texts: as asked, or as the store's keys were made.

    Never so many that their logits would take more than half a gigabyte.
    """
    if not has_keys(store):
        return min(asked or BATCH_TOKENS, MOST_LOGITS // vocabulary)
    config = store.stage("extract").config
    most = max(int(config["context"]), MOST_LOGITS // vocabulary)
    return min(asked or int(config["batch_tokens"]), most)


def check_alike(main: Store, other: Store, *, walked: bool) -> None:
    """Refuse two stores that cannot be used at once: other tokens or, if walked, other keys."""
    tokenizers = [store.stage("tokenize").config["tokenizer"] for store in (main, other)]
    if tokenizers[0] != tokenizers[1]:
        own = _own_tokenizer(other)
        difference = "" if own is None else _difference(main, own)
        raise BadInput(
            f"{other.path} has another tokenizer than {main.path}{difference}: stores that are "
            f"used at once need the same one"
        )
    if walked and _keys_of(main) != _keys_of(other):
        raise BadInput(
            f"the keys of {other.path} come from another model than those of {main.path}, so one "
            f"query cannot serve both: build one of them with the other's --key-model, or walk "
            f"neither: --method lm+ngram+cache"
        )


def _keys_of(store: Store) -> tuple[str | None, str]:
    return _key_identity(store).weights, store.stage("extract").config["key"]


def _key_identity(store: Store) -> ModelIdentity:
    return ModelIdentity.from_facts(store.stage("extract").facts.get("identity"))


def _built_for(store: Store) -> ModelIdentity:
    """The LM that was named when the store was built: by default that of the keys."""
    facts = store.stage("extract").facts
    return ModelIdentity.from_facts(facts["lm"]) if "lm" in facts else _key_identity(store)


def _settings(
    store: Store, made: ModelIdentity, place: str | None, flag: str, wanted: WantedModels
) -> ModelSettings:
    """How the model that was made with is found: at the place that is named, or where it was."""
    if place is None and made.revision is None and not Path(made.place).exists():
        raise ModelError(
            f"the model of {store.path} is no longer at {made.place}; name its place with {flag}"
        )
    config = store.stage("extract").config
    return ModelSettings(
        model=place or made.place,
        revision=None if place else made.revision,
        key=config["key"],
        dtype=config["dtype"] if wanted.device is None else None,
        trust_remote_code=wanted.trust_remote_code,
    )


def _check_weights(store: Store, now: ModelIdentity, made: ModelIdentity, flag: str) -> None:
    if now.weights != made.weights:
        raise BadInput(
            f"model {now} is not the one that {store.path} was made with (its weights or config "
            f"differ): queries and keys would not match; name the right one with {flag}"
        )


def _difference(store: Store, tokenizer: Tokenizer) -> str:
    """How a tokenizer differs from the store's, if the latter can still be looked at."""
    own = _own_tokenizer(store)
    difference = None if own is None else first_difference(tokenizer, own)
    return f" ({difference})" if difference else ""


def _own_tokenizer(store: Store) -> Tokenizer | None:
    """The tokenizer that a store was made with, if it is still where it was."""
    settings = ModelSettings(model=store.stage("tokenize").facts["tokenizer"])
    if has_keys(store):
        made = _key_identity(store)
        settings = ModelSettings(model=made.place, revision=made.revision)
    try:
        return identify(settings, weights=False)[1]
    except ModelError:
        return None
