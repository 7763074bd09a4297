"""A store's model and automaton, loaded as one language model."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retomaton_dist.automaton.suffixes import Suffixes
from retomaton_dist.calibration.calibration import Calibration, check_model, newest_calibration
from retomaton_dist.engine.mixture import TextExpert
from retomaton_dist.engine.retrieval import Retrieval
from retomaton_dist.engine.several_stores import FurtherStore
from retomaton_dist.engine.store_models import (
    batch_tokens,
    check_alike,
    device_of,
    other_key_model,
    store_lm,
    windows_of,
)
from retomaton_dist.engine.store_parts import COMPILE, check_sigmas, choose_automata
from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.errors import BadInput
from retomaton_dist.generation.curve_point import choose_point, joined_mixing
from retomaton_dist.generation.drafting import Draft, Learnt, drafting_for, suffixes_of
from retomaton_dist.generation.generate import (
    ROWS,
    Generated,
    GenerateRequest,
    Prompt,
    Streamer,
    generate,
)
from retomaton_dist.generation.generator import Generator, generator_of
from retomaton_dist.generation.hugging_face import CustomGenerate, custom_generate
from retomaton_dist.generation.sampling import SamplingParams
from retomaton_dist.generation.score import Scorable, score
from retomaton_dist.generation.text_request import Watch
from retomaton_dist.lm.identity import ModelIdentity, ModelSpec
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.model_reader import WindowedModel
from retomaton_dist.lm.tokenizer import Tokenizer
from retomaton_dist.methods.method import CurvePoint
from retomaton_dist.methods.online import LAMBDA, Online
from retomaton_dist.methods.registry import METHODS
from retomaton_dist.settings import PRESETS, LoadSettings
from retomaton_dist.settings.parsing import refuse_unknown, split_keywords
from retomaton_dist.storage.store import Store

PRESET = "reference"
NAME = "default"


@dataclass(frozen=True, eq=False)
class RetomatonLM:
    """A language model: an LM, mixed with what the store knows.

    `key_model` is what queries come from, None if that is the LM itself or nothing is walked.
    `point` says how: its `spec` is the walk (None: no walk), its `mixing` gives p, and its `gate`
    says where a walk that forgets may search. `calibration` is the name of what it was chosen by,
    None if there was none. Documents begin and windows slide as in the store's corpus: the model
    reads `context` tokens at once at most, in windows that begin `stride` tokens apart. `further`
    are stores that are mixed in beside the main one.
    """

    store: Store
    model: ModelSpec
    lm: LanguageModel
    tokenizer: Tokenizer
    retrieval: Retrieval
    point: CurvePoint
    calibration: str | None
    context: int
    stride: int
    key_model: WindowedModel | None = None
    further: tuple[FurtherStore, ...] = ()

    @property
    def method(self) -> str:
        """The name of its method."""
        return self.point.method

    @property
    def batch_tokens(self) -> int:
        """Tokens of one forward pass over whole texts."""
        return batch_tokens(self.store, self.lm.vocabulary)

    def encode(self, text: str) -> NDArray[np.int32]:
        """The tokens of a text as a document of the corpus has them, its end included."""
        end: int | None = self.store.stage("tokenize").config["end"]
        if not text.strip():
            return np.empty(0, np.int32)
        tokens = self.tokenizer.encode([text])[0][0]
        return np.append(tokens, np.int32(end)) if len(tokens) and end is not None else tokens

    def score(self, texts: Sequence[Scorable], **unknown: Any) -> list[TokenScores]:
        """Log-probabilities of texts, each of them a document: the numbers that `eval` has.

        A text is tokenised as the corpus was, its end included; tokens are taken as they are.
        """
        refuse_unknown(self.score, unknown)
        return score(self, [texts] if isinstance(texts, str) else texts)

    @cached_property
    def generator(self) -> Generator:
        """What makes texts grow."""
        return generator_of(self)

    @cached_property
    def learnt(self) -> dict[Hashable, Learnt]:
        """What was learnt of drafts, by how tokens are chosen."""
        return {}

    @cached_property
    def draft_suffixes(self) -> Suffixes | None:
        """The suffix index that drafts are looked up in, if there is one."""
        return suffixes_of(self)

    @cached_property
    def custom_generate(self) -> CustomGenerate:
        """For transformers: `model.generate(..., custom_generate=lm.custom_generate)`."""
        return custom_generate(self)

    def generate(
        self,
        prompts: str | Sequence[Prompt],
        max_new_tokens: int = 64,
        do_sample: bool = False,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        num_beams: int = 1,
        repetition_penalty: float = 1.0,
        stop: str | Sequence[str] = (),
        seed: int = 0,
        num_return_sequences: int = 1,
        streamer: Streamer | None = None,
        draft: Draft = "auto",
        *,
        slide: bool = True,
        watch: Watch | None = None,
        batch: int = ROWS,
        **unknown: Any,
    ) -> list[Generated]:
        """Texts that follow prompts, each the beginning of a document; see `generate`.

        The same seed gives the same texts, with and without drafts, alone or in a batch.
        """
        refuse_unknown(self.generate, unknown)
        choosing = SamplingParams(
            do_sample=do_sample,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
        )
        given = [prompts] if isinstance(prompts, str) else prompts
        asked = GenerateRequest(
            max_new_tokens=max_new_tokens,
            choosing=choosing,
            num_beams=num_beams,
            num_return_sequences=num_return_sequences,
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            draft=drafting_for(self, draft, num_beams, replace(choosing, seed=0)),
            slide=slide,
            batch=batch,
        )
        return generate(self, given, asked, streamer, watch)

    def __repr__(self) -> str:
        return f"<RetomatonLM: {self}>"

    def __str__(self) -> str:
        walk = f", walk {self.point.spec.label}" if self.point.spec else ""
        found = f", calibration {self.calibration!r}" if self.calibration else ""
        others = "".join(f" and {store.retrieval.store}" for store in self.further)
        return f"{self.method} of {self.store.path}{others}{walk}{found}"


def load(store: str | Path | Sequence[str | Path], **settings: Any) -> RetomatonLM:
    """Load a store, or several at once, as a language model; keywords are the flags of `score`.

    By default the LM is mixed with all that the store has and that needs no search, by weights that
    follow the text: no calibration is needed. Methods that were calibrated walk by `tau`, or by the
    tau that saves the fraction `foss` of the searches on the calibration text; by default what the
    calibration was made for. `calibration` is the newest by default; without any, `lambda_` and
    `knn_temperature` must be given, for a method without a network.
    """
    (chosen,) = split_keywords((LoadSettings,), settings)
    if isinstance(store, str | Path):
        return load_with(store, chosen)
    if not store:
        raise BadInput("no store was named")
    first, *others = store
    return load_with(first, replace(chosen, with_=(*map(str, others), *chosen.with_)))


def load_with(store: str | Path, wanted: LoadSettings) -> RetomatonLM:
    """Load a store, and those to be mixed in beside it, as the settings say."""
    opened = [Store.open(Path(path).resolve()) for path in (store, *wanted.with_)]
    outlined, tokenizer = store_lm(opened[0], wanted)
    spec = outlined.spec
    main, further = _chosen(opened, spec.identity, wanted)
    key_model = _key_model(main, spec.identity, wanted)
    lm = LanguageModel.load(spec, device_of(main.store, wanted.device))
    return RetomatonLM(
        main.store,
        spec,
        lm,
        tokenizer,
        main.retrieval,
        main.point,
        main.calibration,
        *windows_of(main.store, outlined),
        key_model=key_model,
        further=further,
    )


def with_settings(lm: RetomatonLM, wanted: LoadSettings) -> RetomatonLM:
    """The same stores and LM by another method or threshold; the LM is not loaded again."""
    stores = [lm.store, *(Store.open(one.retrieval.store) for one in lm.further)]
    main, further = _chosen(stores, lm.model.identity, wanted)
    return replace(
        lm,
        retrieval=main.retrieval,
        point=main.point,
        calibration=main.calibration,
        key_model=lm.key_model or _key_model(main, lm.model.identity, wanted),
        further=further,
    )


class UsedStore(NamedTuple):
    """A store, and how it is used."""

    store: Store
    point: CurvePoint
    retrieval: Retrieval
    calibration: str | None


def _chosen(
    stores: Sequence[Store], lm: ModelIdentity, wanted: LoadSettings
) -> tuple[UsedStore, tuple[FurtherStore, ...]]:
    """How stores are used at once: the main one, with the mixing of all, and the further ones.

    The main store is the first that is walked. The LM alone asks no further one.
    """
    if wanted.method == "lm":
        stores = stores[:1]
    used = [_used(each, lm, wanted, alone=len(stores) == 1) for each in stores]
    used.sort(key=lambda one: one.point.spec is None)
    main, *others = used
    for other in others:
        check_alike(main.store, other.store, walked=other.point.spec is not None)
    point = replace(main.point, mixing=joined_mixing([one.point for one in used]))
    further = tuple(FurtherStore(one.retrieval, one.point.spec) for one in others)
    return main._replace(point=point), further


def _used(store: Store, lm: ModelIdentity, wanted: LoadSettings, *, alone: bool) -> UsedStore:
    """How a store is used, as the settings say; among others, only what needs no network."""
    name = wanted.method or default_method(store, lm, wanted)
    if not alone and wanted.method is None:
        name = name.removesuffix(LAMBDA)
    method, wanted = METHODS[name], replace(wanted, method=name)
    if not alone and (method.learns or not isinstance(method, Online)):
        raise BadInput(
            f"{name} cannot mix several stores: choose a method whose weights follow the text, "
            f"such as retomaton+suffix+ngram+cache or lm+ngram+cache"
        )
    kept, automaton = _calibration(store, lm, wanted), ""
    if method.is_walk:
        automaton = choose_automata(wanted.automaton, store)[0]
        if kept is not None and wanted.automaton is None:
            automaton = kept.automata[0]
    point = choose_point(store, automaton, kept, wanted)
    retrieval = _retrieval(store, automaton, kept, point, wanted.threads)
    return UsedStore(store, point, retrieval, kept.name if kept else None)


def _key_model(main: UsedStore, lm: ModelIdentity, wanted: LoadSettings) -> WindowedModel | None:
    """The model that queries come from, loaded, if there are any and it is not the LM itself."""
    store = main.store
    outlined = None if main.point.spec is None else other_key_model(store, lm, wanted)
    if outlined is None:
        return None
    loaded = LanguageModel.load(outlined.spec, device_of(store, wanted.device))
    return WindowedModel(outlined.spec, loaded, *windows_of(store, outlined))


def default_method(store: Store, lm: ModelIdentity, wanted: LoadSettings) -> str:
    """The strongest mixture that needs no search: with what the store has, and what it learned."""
    chosen = wanted.calibration or newest_calibration(store, lm)
    learned = Calibration.open(store, chosen).found if chosen else {}
    if store.is_done(f"ngram/{NAME}"):
        walks = any(name.startswith(COMPILE) for name in store.manifest.stages)
        begin = "retomaton+suffix" if walks and store.is_done(f"suffix/{NAME}") else "lm"
        name = f"{begin}+ngram+cache"
        return f"{name}+lambda" if f"{name}+lambda" in learned else name
    if "retomaton+lambda" in learned:
        return "retomaton+lambda"
    raise BadInput(
        f"{store.path} has no n-gram model to mix in: make it with `retomaton suffix {store.path}` "
        f"and `retomaton ngram {store.path}`, or name another --method"
    )


def _calibration(store: Store, lm: ModelIdentity, wanted: LoadSettings) -> Calibration | None:
    """The calibration that was named, else the newest; of no use to what was not calibrated.

    One that was made with another LM is refused.
    """
    if wanted.calibration is not None:
        check_model(store, wanted.calibration, lm)
        return Calibration.open(store, wanted.calibration)
    name, method = newest_calibration(store, lm), METHODS[wanted.method or ""]
    if name is not None:
        newest = Calibration.open(store, name)
        if method.learns or method.name in newest.found:
            return newest
    if method.learns and (wanted.lambda_ is None or wanted.knn_temperature is None):
        raise BadInput(
            f"{store.path} has no calibration: make one with `retomaton calibrate {store.path} "
            f"--on TEXT`, or choose a method without a network and give --lambda and "
            f"--knn-temperature (in Python: lambda_ and knn_temperature), or one that needs none, "
            f"such as lm+ngram+cache"
        )
    return None


def _retrieval(
    store: Store, automaton: str, kept: Calibration | None, point: CurvePoint, threads: int
) -> Retrieval:
    """What the walk needs of the store, opened; what is missing is said with its command."""
    spec = point.spec
    index = kept.index if kept else NAME
    suffixes = kept.suffixes if kept else NAME
    experts = point.mixing.experts
    if TextExpert.NGRAM in experts:
        store.stage(f"ngram/{NAME}")
    searches, looks_up = (spec.searches, spec.looks_up) if spec else (False, False)
    if searches:
        store.stage(f"index/{index or NAME}")
    if spec is not None and spec.looks_up:
        check_sigmas(store, suffixes or NAME, (spec.sigma,))
    return Retrieval(
        store.path,
        (automaton,) if automaton else (),
        (index or NAME) if searches else None,
        (suffixes or NAME) if looks_up else None,
        kept.parameters if kept else None,
        served=False,
        settings=kept.walk if kept else PRESETS[PRESET],
        threads=threads,
        ngrams=NAME if TextExpert.NGRAM in experts else None,
        cache=TextExpert.CACHE in experts,
    )
