"""`retomaton plan` and the cost model behind it, against what was measured."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

import retomaton_dist as rd
from retomaton_dist.dry_run.plan import DAY, HEAD, WEEK
from retomaton_dist.dry_run.rates import MEASURED, read_rates, widened
from retomaton_dist.errors import BadInput
from retomaton_dist.lm.outline import body_parameters, load_config
from retomaton_dist.lm.source import find_model
from retomaton_dist.settings import ClusterSettings, ModelSettings
from retomaton_dist.stages.cost import Work
from retomaton_dist.stages.extract import choose_shape
from retomaton_dist.stages.kmeans import Kmeans
from tests.benchmarks.scale_rates import RATE_OF, compared, estimated, rates_of
from tests.cli.checks import check_refused
from tests.conftest import TINY_DIMENSION

# Runs of `python -m tests.benchmarks.scale`, as its results file holds them.
MEASURED_RUNS = json.loads((Path(__file__).parent / "measured.json").read_text())
SMALLEST, *LARGER = MEASURED_RUNS
CLUSTER = {"nodes": 4, "cores": 16, "gpus": 2}


@pytest.mark.parametrize("run", LARGER, ids=lambda run: f"{run['entries']:,}")
def test_cpu_time_is_within_twice_what_was_measured(run):
    found = compared(SMALLEST, run)
    assert found
    for stage, (spent, said) in found.items():
        assert spent / 2 < said < 2 * spent, (stage, spent, said)


def test_the_stages_that_take_long_are_among_those_measured():
    assert {"cluster", "compile"} <= set(compared(SMALLEST, LARGER[-1]))


@pytest.mark.parametrize("run", MEASURED_RUNS, ids=lambda run: f"{run['entries']:,}")
def test_disk_is_what_was_measured(run):
    for stage, said in estimated(run)[1].items():
        left = sum(run["stages"][stage]["left"].values())
        assert said == pytest.approx(left, rel=0.1), stage


@pytest.mark.parametrize("run", LARGER, ids=lambda run: f"{run['entries']:,}")
def test_memory_of_a_worker_is_within_twice_what_was_measured(run):
    said = {}
    for stage in rd.plan(tokens=run["entries"], dimension=run["dimension"]).stages:
        said[stage.stage] = max(said.get(stage.stage, 0), stage.memory)
    for stage in RATE_OF:
        peak = run["stages"][stage]["peaks"]["worker"]
        assert said[stage] > peak / 2, (stage, peak, said[stage])


def test_rates_of_a_benchmark_make_the_plan_say_what_it_measured(tmp_path):
    run = LARGER[-1]
    found = rates_of(SMALLEST, run)
    (tmp_path / "rates.json").write_text(json.dumps(found))
    rates = read_rates(tmp_path / "rates.json")
    assert {name: getattr(rates, name) for name in found} == found
    assert rates.hashed == MEASURED.hashed
    spent, said = compared(SMALLEST, run)["cluster"]
    assert rates.products == pytest.approx(MEASURED.products * said / spent)


def test_k_means_reads_each_row_some_five_times_however_many_states_there_are():
    for entries in (10**8, 10**9, 10**12):
        work = Work(choose_shape(entries, 1024, None), 64, MEASURED, 50_000)
        settings = ClusterSettings(states=min(entries // 100, 2**32 - 1), sample=entries)
        assert Kmeans().estimate(settings, work).passes == pytest.approx(5.1875)


def test_memory_of_a_worker_does_not_grow_with_the_entries():
    small, large = (rd.plan(tokens=tokens, dimension=64, **CLUSTER) for tokens in (1e8, 1e9))
    for before, now in zip(small.stages, large.stages, strict=True):
        assert now.memory < 1.3 * before.memory, now.stage


@pytest.mark.parametrize("tokens", [1e8, 1e9, 1e12])
def test_a_plan_says_what_every_stage_takes(command, tiny_model, tokens):
    asked = ["--tokens", tokens, "--model", tiny_model, "--nodes", 4, "--cores", 16]
    result = command("plan", *asked)
    assert (result.returncode, result.stderr) == (0, "")
    head, columns, *rows = result.stdout.splitlines()
    assert head.startswith(f"{tokens:,.0f} tokens, keys of {TINY_DIMENSION} numbers ({tiny_model})")
    assert head.endswith("on 4 nodes of 16 cores and 0 GPUs")
    assert tuple(columns.split()) == HEAD
    stages = ["tokenize", "extract", "cluster", "index", "compile", "compile", "suffix"]
    assert [row.split()[0] for row in rows[:10]] == [*stages, "ngram", "statistics", "in"]


def test_no_stage_of_a_trillion_tokens_takes_a_week_on_64_large_nodes():
    plan = rd.plan(
        tokens=1e12, dimension=1024, parameters=3e8, nodes=64, cores=64, gpus=8,
        cluster={"states": 10**6, "sample": 10**8}, index={"factory": "IVF32768,PQ64"},
    )  # fmt: skip
    longest = max(plan.stages, key=plan.seconds_of)
    assert plan.seconds_of(longest) < WEEK, longest.stage
    for stage in plan.stages:
        if stage.stage in ("compile", "suffix"):
            assert plan.seconds_of(stage) < 0.5 * DAY


@pytest.mark.parametrize("stage", ["compile", "suffix"])
def test_bytes_grow_with_the_entries_and_not_with_the_number_of_units(stage):
    def moved(tokens, unit):
        tables = {stage: {"unit_entries": unit}}
        plan = rd.plan(tokens=tokens, dimension=64, nodes=4, cores=16, **tables)
        return sum(plan.network(made) for made in plan.stages if made.stage == stage)

    assert moved(1e9, 1 << 18) == pytest.approx(moved(1e9, 1 << 21), rel=0.01)
    assert moved(4e9, 1 << 21) == pytest.approx(4 * moved(1e9, 1 << 21), rel=0.01)


def test_what_is_too_much_is_warned_of_in_a_line_each():
    text = rd.plan(tokens=1e12, dimension=1024, disk=10, unit_timeout=1, **CLUSTER).as_text()
    warned = [line for line in text.splitlines() if line.startswith("WARNING: ")]
    assert [line for line in warned if "the longest unit of compile" in line]
    assert [line for line in warned if "the disk is too small: " in line]
    assert [line for line in warned if "(states/kmeans) would take" in line]
    assert "note: a state's number has 32 bits, so there are 4,294,967,295 states at most" in text
    small = rd.plan(tokens=1e6, dimension=64, **CLUSTER).as_text()
    assert "WARNING" not in small


def test_more_nodes_take_less_time_and_the_same_work():
    one, four = (rd.plan(tokens=1e9, dimension=64, nodes=nodes, cores=16) for nodes in (1, 4))
    assert four.core_hours == one.core_hours
    assert four.disk == one.disk
    assert sum(stage.seconds for stage in four.stages) < sum(stage.seconds for stage in one.stages)
    assert all(one.network(stage) == 0 < four.network(stage) for stage in one.stages)
    slow = rd.plan(tokens=1e9, dimension=64, nodes=4, cores=16, network=0.1)
    assert slow.seconds > 2 * four.seconds


def test_gpus_take_over_the_model_and_the_states():
    plans = [rd.plan(tokens=1e9, dimension=64, parameters=1e8, **CLUSTER | {"gpus": gpus})
             for gpus in (0, 2)]  # fmt: skip
    assert plans[0].gpu_hours == 0 < plans[1].gpu_hours
    hours = [[plan.hours(stage) for stage in plan.stages] for plan in plans]
    assert [found[1] > 0 for found in hours[1]] == [False, True, True, *[False] * 6]
    assert hours[0][3:] == hours[1][3:]


def test_settings_of_stages_come_from_the_tables(command, tmp_path):
    chosen = {"cluster": {"states": 1000, "iterations": 3}, "compile": {"codec": "fp16"}}
    stages = rd.plan(tokens=1e6, dimension=64, **chosen).stages
    assert stages[2].makes == "states/kmeans: 1,000 states, at most 3 iterations"
    assert [stage.stage for stage in stages].count("compile") == 1
    (tmp_path / "b.toml").write_text("[cluster]\nstates = 1000\n[plan]\ntokens = 1e6\n")
    result = command("plan", "--dimension", 64, "--config", tmp_path / "b.toml")
    assert "states/kmeans: 1,000 states, at most 20 iterations" in result.stdout


def test_parameters_are_counted_without_tables_of_tokens(tiny_model):
    source = find_model(ModelSettings(model=str(tiny_model)), weights=False)
    config = load_config(source, trust_remote_code=False)
    width, layers = config.n_embd, config.n_layer
    # GPT-2: 12 d^2 + 13 d per layer, a norm, and positions.
    expected = layers * (12 * width**2 + 13 * width) + 2 * width + config.n_positions * width
    assert body_parameters(config, source) == expected


def test_wider_keys_are_encoded_more_slowly():
    wide = widened(MEASURED, 768)
    assert wide.encoded / MEASURED.encoded == pytest.approx(0.155, rel=0.1)
    assert wide.products / MEASURED.products == pytest.approx(1.88, rel=0.1)
    assert dataclasses.replace(wide, encoded=1, products=1) == dataclasses.replace(
        MEASURED, encoded=1, products=1
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--tokens is needed"),
        (["--tokens", "0", "--dimension", "8"], "--tokens 0: must be at least 1"),
        (["--tokens=-5", "--dimension", "8"], "--tokens -5: must be at least 1"),
        (["--tokens", "nan", "--dimension", "8"], "--tokens nan: must be at least 1"),
        (["--tokens", "inf", "--dimension", "8"], "--tokens inf: must be at least 1"),
        (["--tokens", "many", "--dimension", "8"], "--tokens many: must be a number"),
        (["--tokens", "1e9"], "--model or --dimension is needed"),
        (["--tokens", "1e9", "--dimension", "0"], "--dimension 0: must be at least 1"),
        (["--tokens", "1e9", "--model", "no/where/at/all"], "there is no such file or folder"),
        (["--tokens", "1e9", "--dimension", "8", "--nodes", "0"], "--nodes 0: must be at least 1"),
        (["--tokens", "1e9", "--dimension", "8", "--cores", "0"], "--cores 0: must be at least 1"),
        (["--tokens", "1e9", "--dimension", "8", "--gpus=-1"], "--gpus -1: must be at least 0"),
        (["--tokens", "1e9", "--dimension", "8", "--network", "0"], "--network 0: must be above 0"),
        (["--tokens", "1e9", "--dimension", "8", "--rates", "no.json"], "--rates no.json: cannot"),
    ],
)
def test_bad_input_is_refused_in_one_line(command, flags, said):
    check_refused(command("plan", *flags), said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "must be an object of encoded, "),
        ('{"speed": 3}', "must be an object of encoded, "),
        ('{"products": 0}', "products is 0, and must be a number above 0"),
        ('{"hashed": "fast"}', "hashed is fast, and must be a number above 0"),
        ('{"placed": NaN}', "placed is nan, and must be a number above 0"),
    ],
)
def test_rates_that_are_none_are_refused(command, tmp_path, text, said):
    (tmp_path / "r.json").write_text(text)
    flags = ["--tokens", "1e9", "--dimension", "8", "--rates", tmp_path / "r.json"]
    check_refused(command("plan", *flags), said)


def test_settings_of_stages_that_do_not_fit_are_refused_with_their_table():
    with pytest.raises(BadInput, match=r"\[cluster\] --states 5000: choose from 1 to the number"):
        rd.plan(tokens=1000, dimension=64, cluster={"states": 5000})
    with pytest.raises(BadInput, match=r"\[compile\] --code-size 7: keys of 64 numbers cannot"):
        rd.plan(tokens=1000, dimension=64, compile={"code_size": 7})


@pytest.mark.timeout(60)
def test_rates_that_are_a_pipe_or_nested_without_end_are_refused(command, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "deep").write_text("[" * 100_000)
    for name, said in (("pipe", "it is a pipe or a device"), ("deep", "is not JSON")):
        flags = ("--tokens", "1e9", "--dimension", 8, "--rates", tmp_path / name)
        check_refused(command("plan", *flags), said)
