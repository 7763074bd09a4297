"""The stages of a build, each declared once: its command, `rd.` function and place in `build`.

To add a stage, write its `BuildStage` (stages/stage.py shows what that is) and an entry here.
"""

from dataclasses import dataclass
from typing import Any

from retomaton_dist.registry import load
from retomaton_dist.settings.build import (
    ClusterSettings,
    CompileSettings,
    ExtractSettings,
    IndexSettings,
    NgramSettings,
    SuffixSettings,
    TokenizeSettings,
)
from retomaton_dist.settings.option import Settings


@dataclass(frozen=True)
class DeclaredStage:
    """A stage by its `name`: that of its command, of its `rd.` function and of its TOML table.

    code      where its `BuildStage` is defined, imported when it is used
    folder    where its files lie in the store
    settings  its own group of settings, if it has one
    named     the setting that names what it makes, where several may coexist
    prune     the flag of `prune` that deletes one of them by name, and what its help says
    reads     further groups of settings that its command takes
    parts     further stages of the manifest that its command runs
    line      what `inspect` and the command say of it: text with its facts in braces, or the place
              (`package.module:name`) of a function of the facts
    section   the place of a function that says more, of the name and the whole stage
    """

    name: str
    summary: str
    examples: str
    code: str
    folder: str
    settings: type[Settings] | None = None
    named: str = ""
    prune: tuple[str, str] = ("", "")
    reads: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    line: str = ""
    section: str = ""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of settings that its command has flags for."""
        own = (self.name,) if self.settings else ()
        return (*self.reads, *own, "workers")

    @property
    def from_text(self) -> bool:
        """Whether it begins with text and a model, and not with what the store has already."""
        return bool(self.reads)

    def stored(self, own: Any) -> str:
        """What the manifest calls the stage that is run with these settings of its own."""
        return f"{self.name}/{getattr(own, self.named)}" if self.named else self.name

    def load(self) -> Any:
        """Its `BuildStage`."""
        return load(self.code)()

    def said(self, facts: Any) -> str:
        """What there is to say of a finished stage, in a line."""
        if self.line.startswith("retomaton_dist."):
            return str(load(self.line)(facts))
        return self.line.format_map(facts)


def declared(name: str) -> DeclaredStage | None:
    """The declaration of a stage of the manifest, such as `suffix/default`, if it has one."""
    kind = name.split("/")[0]
    return next((stage for stage in STAGES if stage.name == kind), None)


def command_for(name: str) -> str:
    """The command that runs a stage of the manifest, such as `compile` for `codec/pq64`."""
    kind = name.split("/")[0]
    return next((stage.name for stage in STAGES if kind in stage.parts), kind)


STAGES: tuple[DeclaredStage, ...] = (
    DeclaredStage(
        name="tokenize",
        summary="Tokenise a corpus into a store (the first stage; `extract` does it too).",
        examples="""
        retomaton tokenize wiki.store --corpus wiki.train.txt --split 'regex: = [^=]' --model gpt2
        retomaton tokenize code.store --corpus 'src/**/*.py' --model ./my-model
        retomaton tokenize web.store --corpus web.parquet --field content --model gpt2
        """,
        code="retomaton_dist.stages.tokenize:TokenizeStage",
        folder="corpus",
        settings=TokenizeSettings,
        reads=("corpus", "model"),
    ),
    DeclaredStage(
        name="extract",
        summary="Turn a corpus into a datastore: a key, a value and a pointer for every token.",
        examples="""
        one sentence per line, a hub model, one worker per GPU or CPU:
          retomaton extract law.store --corpus law/train.en --split line --model gpt2

        articles that begin with ` = Title = `, longer context, four workers on a cluster:
          retomaton extract wiki.store --corpus wiki.train.txt --split 'regex: = [^=]' \\
              --model ./wiki7M --context 512 --stride 256 --workers 4 --address auto

        all settings from a file, one of them from a flag:
          retomaton extract --config build.toml --workers 2
        """,
        code="retomaton_dist.stages.extract:ExtractStage",
        folder="datastore.zarr",
        settings=ExtractSettings,
        reads=("corpus", "model", "tokenize"),
    ),
    DeclaredStage(
        name="cluster",
        summary="Cluster a store's entries into states: k-means at any size, greedy merging, or "
        "none.",
        examples="""
        one state per 100 entries:
          retomaton cluster law.store

        side by side with it, for comparison:
          retomaton cluster law.store --name coarse --states 2000
          retomaton cluster law.store --algorithm greedy --neighbours 10
          retomaton cluster law.store --algorithm none
        """,
        code="retomaton_dist.stages.cluster:ClusterStage",
        folder="states",
        settings=ClusterSettings,
        named="clustering",
        prune=("states", "delete a clustering that no automaton was compiled from"),
        section="retomaton_dist.api.describe:clustering_as_text",
    ),
    DeclaredStage(
        name="index",
        summary="Build a search index over all keys: sharded, tuned to a recall that is measured.",
        examples="""
        what fits the store, tuned to find 90 % of what exact search finds:
          retomaton index law.store

        nearer to exact; on a finished index this only tunes anew:
          retomaton index law.store --target-recall 0.97

        a second index beside the first, by any FAISS factory string, in four shards:
          retomaton index law.store --name small --factory OPQ32,IVF1024,PQ32 --shards 4

        fixed search parameters instead of tuned ones:
          retomaton index law.store --parameters nprobe=32
        """,
        code="retomaton_dist.stages.index:IndexStage",
        folder="index",
        settings=IndexSettings,
        named="name",
        prune=("index", "delete a search index that no calibration uses"),
        line="retomaton_dist.search.layout:described",
    ),
    DeclaredStage(
        name="compile",
        summary="Compile a clustering into an automaton: columns that all workers of a node share.",
        examples="""
        the clustering that `retomaton cluster law.store` made, with codes of up to 64 bytes:
          retomaton compile law.store

        pointers only, every entry its own state:
          retomaton cluster law.store --algorithm none
          retomaton compile law.store --states none

        exact distances, at the price of a copy of the keys:
          retomaton compile law.store --codec fp16 --name exact
        """,
        code="retomaton_dist.stages.compile:CompileStage",
        folder="automata",
        settings=CompileSettings,
        named="automaton",
        prune=("automaton", "delete an automaton, and its codec if no other has it"),
        parts=("codec",),
        line="{states:,} states over {entries:,} entries, codec {codec}, "
        "{bytes_per_entry:.1f} bytes per entry",
    ),
    DeclaredStage(
        name="suffix",
        summary="Index the corpus by what precedes each entry: restarts that need no search.",
        examples="""
        the entries that follow the longest match of the last 8 tokens, found in microseconds:
          retomaton suffix law.store

        longer matches told apart, beside the first index:
          retomaton suffix law.store --longest 16 --name long
        """,
        code="retomaton_dist.stages.suffix:SuffixStage",
        folder="suffixes",
        settings=SuffixSettings,
        named="name",
        prune=("suffixes", "delete a suffix index that no n-gram model and no calibration uses"),
        line="{entries:,} entries by up to {longest} tokens before them, "
        "{bytes_per_entry:.1f} bytes per entry",
    ),
    DeclaredStage(
        name="ngram",
        summary="Count what follows the corpus's contexts: an n-gram model (Kneser-Ney).",
        examples="""
        n-grams of up to 5 tokens, over the index that `retomaton suffix law.store` made:
          retomaton ngram law.store

        longer ones, beside the first:
          retomaton ngram law.store --order 8 --name long
        """,
        code="retomaton_dist.stages.ngram:NgramStage",
        folder="ngrams",
        settings=NgramSettings,
        named="name",
        prune=("ngrams", "delete an n-gram model that no calibration uses"),
        line="n-grams of up to {order} tokens over {entries:,} entries, "
        "{bytes_per_entry:.1f} bytes per entry",
    ),
    DeclaredStage(
        name="statistics",
        summary="Count how often and in how many ways the corpus's tokens go on.",
        examples="""
        what `build` does at its end; without it, every evaluation with adaptret counts for itself:
          retomaton statistics law.store
        """,
        code="retomaton_dist.stages.statistics:StatisticsStage",
        folder="statistics",
        line="{tokens:,} tokens go on in {pairs:,} ways",
    ),
)
