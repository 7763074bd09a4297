"""What a store offers to whoever uses it: its model, its automata, the bounds that they set."""

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from retomaton_dist.errors import BadInput, ModelError
from retomaton_dist.lm.identity import ModelIdentity, identify
from retomaton_dist.lm.outline import ModelOutline, outline
from retomaton_dist.lm.tokenizer import Tokenizer
from retomaton_dist.lm.windows import resolve_windows
from retomaton_dist.settings import ModelSettings
from retomaton_dist.settings.evaluate import listed
from retomaton_dist.storage.store import Store

COMPILE = "compile/"
SUFFIX = "suffix/"
# Logits of a batch: 512 MB as float32.
MOST_LOGITS = 1 << 27
BATCH_TOKENS = 4096


def store_model(
    store: Store, place: str | None, device: str | None, *, trust_remote_code: bool
) -> tuple[ModelOutline, Tokenizer]:
    """The model that the store's keys were made with, where it is now; another one is refused.

    A store without keys takes any model that has its tokenizer.
    """
    if not has_keys(store):
        return _any_model(store, place, trust_remote_code=trust_remote_code)
    stage = store.stage("extract")
    made = ModelIdentity.from_facts(stage.facts.get("identity"))
    if place is None and made.revision is None and not Path(made.place).exists():
        raise ModelError(
            f"the model of {store.path} is no longer at {made.place}; name its place with --model"
        )
    spec, tokenizer = identify(
        ModelSettings(
            model=place or made.place,
            revision=None if place else made.revision,
            key=stage.config["key"],
            dtype=stage.config["dtype"] if device is None else None,
            trust_remote_code=trust_remote_code,
        )
    )
    if spec.identity.weights != made.weights:
        raise BadInput(
            f"model {spec.identity} is not the one that {store.path} was made with (its weights "
            f"or config differ): queries and keys would not match; name the right one with --model"
        )
    return outline(spec), tokenizer


def has_keys(store: Store) -> bool:
    """Whether keys were extracted: without them there is nothing to search or walk."""
    return store.is_done("extract")


def _any_model(
    store: Store, place: str | None, *, trust_remote_code: bool
) -> tuple[ModelOutline, Tokenizer]:
    named = place or store.stage("tokenize").facts["tokenizer"]
    spec, tokenizer = identify(ModelSettings(model=named, trust_remote_code=trust_remote_code))
    check_tokenizer(store, spec.identity)
    return outline(spec), tokenizer


def windows_of(store: Store, outlined: ModelOutline) -> tuple[int, int]:
    """Context and stride of the windows that keys were made with, or as they would be."""
    if not has_keys(store):
        return resolve_windows(None, None, outlined.max_context)
    config = store.stage("extract").config
    return config["context"], config["stride"]


def device_of(store: Store, asked: str | None) -> str:
    """Where the model runs: as asked, as when keys were made, or a GPU if there is one."""
    if asked is None and has_keys(store):
        made: str = store.stage("extract").config["device"]
        return made
    return asked or ("cuda" if torch.cuda.is_available() else "cpu")


def check_tokenizer(store: Store, identity: ModelIdentity) -> None:
    """Refuse another tokenizer than the store's: its tokens would be others."""
    if identity.tokenizer != store.stage("tokenize").config["tokenizer"]:
        raise BadInput(
            f"the tokenizer of {identity} is not the one that {store.path} was made with: "
            f"the text would have other tokens; use the store's model"
        )


def choose_automata(names: str | None, store: Store) -> tuple[str, ...]:
    """The automata named, or all that share the first one's codec; k-means comes first."""
    compiled = [
        name.removeprefix(COMPILE)
        for name, stage in store.manifest.stages.items()
        if name.startswith(COMPILE) and stage.done
    ]
    wanted = listed(names)
    for name in wanted:
        if name not in compiled:
            clustering = "" if f"cluster/{name}" in store.manifest.stages else _clustering(name)
            raise BadInput(
                f"{store.path} has no automaton {name!r}; make it: {clustering}"
                f"`retomaton compile {store.path} --states {name}`"
            )
    if not compiled:
        raise BadInput(f"{store.path} has no automaton; make one: `retomaton compile {store.path}`")
    chosen = wanted or sorted(compiled, key=lambda name: name != "kmeans")
    alike = [name for name in chosen if _codec(store, name) == _codec(store, chosen[0])]
    if wanted and len(alike) < len(wanted):
        other = next(name for name in wanted if name not in alike)
        raise BadInput(
            f"--automata: {wanted[0]} and {other} have other codecs, so their distances cannot be "
            f"compared; compile both with one --codec and --code-size"
        )
    return tuple(alike)


def _clustering(name: str) -> str:
    return f"`retomaton cluster STORE --algorithm {name}`, then " if name == "none" else ""


def _codec(store: Store, name: str) -> tuple[object, ...]:
    config = store.stage(f"{COMPILE}{name}").config
    return config["codec"], config["codes"]


def batch_tokens(store: Store, vocabulary: int, asked: int | None = None) -> int:
    """Tokens of one forward pass over whole texts: as asked, or as the store's keys were made.

    Never so many that their logits would take more than half a gigabyte.
    """
    if not has_keys(store):
        return min(asked or BATCH_TOKENS, MOST_LOGITS // vocabulary)
    config = store.stage("extract").config
    most = max(int(config["context"]), MOST_LOGITS // vocabulary)
    return min(asked or int(config["batch_tokens"]), most)


def check_sigmas(store: Store, suffixes: str, sigmas: Sequence[float]) -> None:
    """Refuse lengths that the suffix index does not tell apart."""
    longest = store.stage(f"{SUFFIX}{suffixes}").config["longest"]
    for sigma in sigmas:
        if longest < sigma < math.inf:
            raise BadInput(
                f"--sigma {sigma:g}: the suffix index tells {longest} tokens apart; choose "
                f"0..{longest}, or inf"
            )
