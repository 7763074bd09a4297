"""A dry run measures for as long as it may, and what it has not seen it derives and says so."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.clustering.samples import passes
from retomaton_dist.dry_run.disk import check_disk, check_least
from retomaton_dist.dry_run.extraction import LEAST_TOKENS, TimingWorker, count, timed_shapes
from retomaton_dist.errors import BadInput
from retomaton_dist.runtime.session import Session
from retomaton_dist.settings.parsing import build_settings
from retomaton_dist.stages.build import find_inputs
from retomaton_dist.stages.cost import StageEstimate
from retomaton_dist.stages.extract import Windowing
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.store import Store
from tests.cli.checks import check_refused_without_a_trace

SOON, LATE = 1e-9, 1e9


@pytest.fixture(scope="module")
def settings(tiny_model, small_corpus):
    """Settings of a build in this process, in units of a few lines."""
    named = {"corpus": str(small_corpus), "split": "line", "model": str(tiny_model)}
    return build_settings(named | {"workers": 0, "progress": "none", "unit_bytes": 4096})


@pytest.fixture(scope="module")
def inputs(settings):
    with Session(settings.workers) as session:
        return find_inputs(Path("new.store"), settings, session)


@pytest.fixture(scope="module")
def estimate(tiny_model, small_corpus):
    """Of the same, in no time."""
    named = {"corpus": str(small_corpus), "split": "line", "model": str(tiny_model)}
    here = {"workers": 0, "progress": "none", "unit_bytes": 4096}
    return rd.estimate("new.store", seconds=SOON, **named, **here)


def test_with_enough_time_all_is_counted(settings, inputs, small_store):
    with Session(settings.workers) as session:
        counted = count(inputs.corpus, session, LATE)
    words = Store.open(small_store.path).corpus()
    assert counted.share == 1
    assert np.array_equal(np.sort(counted.lengths), np.sort(words.lengths))
    assert counted.described() == "1,800 documents (200 empty ones skipped)"


def test_without_time_some_of_it_stands_for_the_rest(settings, inputs, small_store):
    with Session(settings.workers) as session:
        counted = count(inputs.corpus, session, SOON)
    assert 0 < counted.share < 0.5
    assert counted.entries == pytest.approx(Store.open(small_store.path).corpus().entries, rel=0.2)
    assert counted.described().startswith("about 1,")


def test_the_model_is_timed_on_more_and_more_tokens_up_to_a_whole_batch():
    shapes = timed_shapes(Windowing("cpu", "float32", 512, 256, 4096))
    assert shapes == [(1, 64), (1, 256), (2, 512), (8, 512)]
    assert timed_shapes(Windowing("cpu", "float32", 48, 24, 48)) == [(1, 48)]


def test_the_model_is_timed_for_as_long_as_there_is_time(inputs):
    windowing = Windowing("cpu", "float32", 64, 32, 4096)
    spec = inputs.outlined.spec
    short = TimingWorker(spec, windowing, SOON).run(0)
    long = TimingWorker(spec, windowing, LATE).run(0)
    assert (short.tokens, long.tokens) == (LEAST_TOKENS, 4096)
    assert short.tokens_per_second > 0 < long.tokens_per_second


def test_what_was_seen_is_said(estimate):
    text = estimate.as_text()
    assert "would hold about " in text
    assert "from about 1," in text
    share = f"{estimate.counted.share:.1%}"
    assert f"measured: tokenizing {share} of the corpus, and the model on 64 tokens" in text


def test_every_stage_says_reads_passes_memory_and_its_longest_unit(estimate):
    stages = {stage.makes.split("/")[0].split(":")[0]: stage for stage in estimate.stages}
    assert list(stages) == [
        "corpus", "datastore.zarr", "states", "index", "codecs", "automata", "suffixes",
        "ngrams", "statistics",
    ]  # fmt: skip
    assert all(stage.memory > 1e7 and stage.unit > 0 for stage in stages.values())
    keys = 2 * estimate.extraction.shape.entries * estimate.extraction.shape.dimension
    # Plain k-means: a start, 20 iterations over more and more of the rows, the assignment.
    entries = estimate.extraction.shape.entries
    whole = 2 + passes(entries, entries // 100, 20)
    assert 5 < whole < 22
    assert stages["states"].passes == pytest.approx(whole)
    assert stages["states"].reads == pytest.approx(whole * keys)
    assert stages["codecs"].passes == 1


def test_a_unit_longer_than_the_time_limit_is_warned_of(estimate):
    assert not [line for line in estimate.warnings() if "unit" in line]
    hasty = dataclasses.replace(estimate, unit_timeout=SOON)
    warned = [line for line in hasty.warnings() if "unit" in line]
    assert len(warned) == len(estimate.stages)
    assert warned[2].startswith("  WARNING: the longest unit of cluster takes about 0:0")
    assert warned[2].endswith("and --unit-timeout is 1e-09 s: raise it")
    assert all(line in hasty.as_text() for line in warned)


def test_a_disk_that_holds_the_store_but_not_what_a_stage_needs_besides_is_warned_of(estimate):
    greedy = StageEstimate("index", "index/default: huge", 0, 0, 1, 0, scratch=1e30)
    warned = dataclasses.replace(estimate, stages=(*estimate.stages, greedy)).warnings()
    assert [line for line in warned if line.startswith("  WARNING: while index runs, ")]


def test_a_store_that_no_disk_holds_is_refused(settings, inputs, tmp_path):
    store = tmp_path / "new.store"
    check_disk(store, settings, inputs, Shape(10_000, 32, 2048))
    with pytest.raises(BadInput, match=r"would take at least .* EB .*; free some, or put the"):
        check_disk(store, settings, inputs, Shape(1 << 56, 32, 1 << 42))


def test_text_too_large_for_the_disk_is_refused_by_its_size_alone(settings, inputs, tmp_path):
    def corpus_of(kind, size):
        (source,) = inputs.corpus.sources
        sources = [dataclasses.replace(source, kind=kind, bytes=size)]
        corpus = dataclasses.replace(inputs.corpus, sources=sources)
        return dataclasses.replace(inputs, corpus=corpus)

    store = tmp_path / "new.store"
    check_least(store, settings, corpus_of("text", 1 << 20))
    # What part of a record is text cannot be told without reading it.
    check_least(store, settings, corpus_of("jsonl", 1 << 59))
    with pytest.raises(BadInput, match="entries of 32 numbers or more"):
        check_least(store, settings, corpus_of("text", 1 << 59))


def test_build_refuses_a_disk_too_small_before_the_first_byte(
    command, tiny_model, small_corpus, tmp_path
):
    store = tmp_path / "new.store"
    named = ["--corpus", small_corpus, "--split", "line", "--model", tiny_model, "--workers", "0"]
    result = command("build", store, *named, "--chunk-entries", 1 << 44)
    check_refused_without_a_trace(result, store, "would take at least 1.34 PB", "free some")
