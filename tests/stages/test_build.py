"""`rd.build` and `retomaton build`: all stages at once; what is wrong with any is refused first."""

import math

import pytest

import retomaton_dist as rd
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import CompileSettings
from retomaton_dist.settings.parsing import build_settings
from retomaton_dist.stages.build import estimate_stages
from retomaton_dist.stages.cost import Rates, Work
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.verify import verify
from tests.cli.checks import Unchanged, check_refused, check_refused_without_a_trace

QUICK = {"cluster": {"algorithm": "none"}, "compile": {"codec": "fp16"}}


@pytest.fixture(scope="module")
def built(small_store, tmp_path_factory):
    """The small store with all stages: those that take the least time. Not to be altered."""
    copy = small_store.copy(tmp_path_factory.mktemp("build"))
    rd.build(copy.path, **copy.settings, **QUICK)
    return copy


@pytest.fixture
def configured(command, small_store, tmp_path):
    """Run `build` with the small store's settings and this TOML."""

    def run(store, text):
        (tmp_path / "build.toml").write_text(text)
        flags = [*small_store.flags(), "--config", tmp_path / "build.toml"]
        return command("build", store, *flags)

    return run


def test_it_ends_with_an_automaton_of_the_clustering_that_it_made(built):
    store = rd.open(built.path)
    automaton = store.automaton("none")
    assert automaton.states == automaton.entries == store.entries
    assert store.searcher().search(store.rows([5]).astype("f4"), 1)[1].shape == (1, 1)
    assert store.suffixes().entries == store.entries
    assert store.ngrams().order == 5
    assert verify(store.store).findings == []


def test_a_second_build_rewrites_nothing(built):
    def written():
        files = (path for path in built.path.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}

    before = written()
    with Unchanged(built.path):
        rd.build(built.path, **built.settings, **QUICK)
    assert written() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[compile]\ncode-size = 7\n", "[compile] --code-size 7: keys of 32 numbers cannot be cut"),
        ("[compile]\ncodec = 'zip'\n", "[compile] --codec zip: choose one of pq, fp16"),
        ("[compile]\nunit-entries = 0\n", "[compile] --unit-entries 0: at least 1 is needed"),
        ("[compile]\nstates = 'greedy'\n", "the build makes the clustering kmeans, and there is"),
        ("[compile]\nstate = 'kmeans'\n", "unknown key 'state'; the nearest known one is 'states'"),
        ("[index]\nfactory = 'IVF8,Odd'\n", "[index] --factory IVF8,Odd: FAISS says"),
        ("[index]\nshards = 0\n", "[index] --shards 0: at least 1 is needed"),
        ("[index]\ntarget-recall = 2\n", "[index] --target-recall 2: must be above 0"),
        ("[suffix]\nlongest = 0\n", "[suffix] --longest 0: must be at least 1, at most 64"),
        ("[ngram]\norder = 10\n", "[ngram] order 10: a suffix index of up to 8 tokens allows 2 to"),
        ("[ngram]\nsuffixes = 'long'\n", "[ngram] --suffixes long: the build makes the suffix ind"),
        ("[cluster]\niterations = 0\n", "[cluster] --iterations 0: at least 1 is needed"),
        ("[cluster]\nname = 'a/b'\n", "[cluster] --name a/b: use letters"),
        ("[cluster]\nstates = 9\nsample = 8\n", "[cluster] --sample 8: fewer entries than the 9"),
    ],
)
def test_bad_settings_of_a_later_stage_leave_no_trace(configured, tmp_path, text, said):
    store = tmp_path / "new.store"
    check_refused_without_a_trace(configured(store, text), store, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[cluster]\nstates = 99999\n", "[cluster] --states 99999: choose from 1 to the number"),
        ("[index]\nshards = 99\n", "[index] --shards 99: shards are made of whole chunks"),
        ("[index]\nfactory = 'IVF99999,Flat'\n", "has 99,999 centroids to train"),
        ("[index]\nnprobe = 3\n", "[index] search parameter nprobe=3: this index has no such"),
    ],
)
def test_what_does_not_fit_the_entries_is_refused_once_they_are_counted(
    configured, small_store, text, said
):
    with Unchanged(small_store.path):
        check_refused(configured(small_store.path, text), said)


def test_what_does_not_fit_the_entries_leaves_no_new_store_behind(configured, tmp_path):
    store = tmp_path / "new.store"
    said = "[cluster] --states 99999: choose from 1 to the number"
    check_refused_without_a_trace(configured(store, "[cluster]\nstates = 99999\n"), store, said)


def test_tables_of_rd_build_are_checked_as_those_of_a_file(small_store):
    refused = [
        ({"cluster": {"stats": 5}}, r"\[cluster\]: unknown key 'stats'; the nearest .* 'states'"),
        ({"cluster": {"states": "many"}}, r"\[cluster\] --states many: must be a whole number"),
        ({"compile": 3}, r"\[compile\] must be a table of settings"),
        ({"compil": {}}, "unknown key 'compil'; the nearest known one is 'compile'"),
    ]
    for tables, said in refused:
        with pytest.raises(BadInput, match=said):
            rd.build("new.store", **small_store.settings, **tables)


def settings_of(**tables):
    return build_settings({"corpus": "a.txt", "model": "m", **tables})


def test_what_is_compiled_is_the_clustering_that_is_made_unless_another_is_named():
    assert settings_of().of(CompileSettings).states == "kmeans"
    assert settings_of(cluster={"algorithm": "greedy"}).of(CompileSettings).states == "greedy"
    named = {"name": "fine", "algorithm": "greedy"}
    assert settings_of(cluster=named).of(CompileSettings).states == "fine"
    other = settings_of(cluster=named, compile={"states": "none", "code-size": 8})
    compiled = other.of(CompileSettings)
    assert (compiled.states, compiled.code_size) == ("none", 8)


def estimated(store, tables):
    """What the stages after extraction would take if everything ran at one per second."""
    words = Store.open(store.path).corpus().vocabulary
    work = Work(rd.open(store.path).store.shape(), 1, Rates(1, 1, 1, 1, 1, 1, 1), words)
    return estimate_stages(settings_of(**tables), work)[2:]


def test_the_disk_space_that_a_dry_run_names_is_what_the_build_takes(built):
    stages = rd.open(built.path).store.manifest.stages
    for estimate in estimated(built, QUICK):
        folder, *name = estimate.makes.split(":")[0].split("/")
        stage = {
            "states": "cluster",
            "index": "index",
            "automata": "compile",
            "suffixes": "suffix",
            "ngrams": "ngram",
            "statistics": "statistics",
        }[folder]
        left = stages["/".join([stage, *name])].bytes
        # Of a small vocabulary's statistics, the file's own header is a part.
        header = 1000 if stage == "statistics" else 0
        # How many followers are listed depends on the text.
        within = 0.3 if stage == "ngram" else 0.02
        assert estimate.disk == pytest.approx(left, rel=within, abs=header)


def test_a_dry_run_gives_no_time_for_an_index_that_it_knows_nothing_of(small_store):
    seconds = [
        {estimate.stage: estimate.seconds for estimate in estimated(small_store, {"index": table})}
        for table in ({"factory": "IVF16,PQ8"}, {"factory": "HNSW16"})
    ]
    assert 0 < seconds[0]["index"] < math.inf
    assert seconds[1] == seconds[0] | {"index": math.inf}
