"""Settings mean the same as flags, in a TOML file and as Python keywords."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.errors import BadInput
from retomaton_dist.settings import (
    GROUPS,
    CorpusSettings,
    ExtractSettings,
    ModelSettings,
    TokenizeSettings,
    WorkerSettings,
)
from retomaton_dist.settings.parsing import make_group, read_file, split_keywords


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "build.toml"
        path.write_text(text)
        return path

    return write


def refused(message, group, **given):
    with pytest.raises(BadInput) as caught:
        make_group(group, given)
    assert str(caught.value) == message


def test_flags_win_over_the_file_and_the_file_over_defaults():
    made = make_group(ExtractSettings, {"context": "64"}, {"context": 32, "stride": 16})
    assert made == ExtractSettings(context=64, stride=16, batch_tokens=None)


def test_auto_wins_over_the_file_too():
    assert make_group(ExtractSettings, {"context": "auto"}, {"context": 32}).context is None


@pytest.mark.parametrize("value", ["auto", None])
def test_auto_is_none_where_the_program_can_find_out(value):
    assert make_group(ExtractSettings, {"context": value}).context is None
    assert make_group(ModelSettings, {"model": "m", "device": value}).device is None


def test_auto_is_no_number_where_it_cannot():
    refused("--threads auto: must be a whole number", WorkerSettings, threads="auto")


@given(number=st.integers(1, 10**12))
def test_whole_numbers_come_as_text_from_flags_and_as_themselves_from_files(number):
    assert make_group(TokenizeSettings, {"unit_bytes": str(number)}).unit_bytes == number
    assert make_group(TokenizeSettings, {}, {"unit_bytes": number}).unit_bytes == number


@given(number=st.floats(0.001, 1e6) | st.integers(1, 100))
def test_numbers_may_be_whole(number):
    for value in (number, str(number)):
        made = make_group(WorkerSettings, {"cpus_per_worker": value}).cpus_per_worker
        assert isinstance(made, float)
        assert made == number


@pytest.mark.parametrize(
    ("setting", "value", "wanted"),
    [
        ("threads", "two", "a whole number"),
        ("threads", "1.5", "a whole number"),
        ("threads", 1.5, "a whole number"),
        ("threads", True, "a whole number"),
        ("threads", [1], "a whole number"),
        ("unit_timeout", "soon", "a number"),
        ("unit_timeout", False, "a number"),
        ("address", 6379, "text"),
        ("address", True, "text"),
    ],
)
def test_a_value_of_another_type_is_refused(setting, value, wanted):
    flag = setting.replace("_", "-")
    refused(f"--{flag} {value}: must be {wanted}", WorkerSettings, **{setting: value})


def test_a_switch_is_true_or_false_and_nothing_else():
    for value in (True, False):
        made = make_group(ModelSettings, {"model": "m", "trust_remote_code": value})
        assert made.trust_remote_code is value
    for value in ("true", 1, 0):
        message = f"--trust-remote-code {value}: must be true or false"
        refused(message, ModelSettings, model="m", trust_remote_code=value)


def test_choices_are_named_when_another_value_is_given():
    refused("--end stop: choose one of eos, none", TokenizeSettings, end="stop")
    refused("--device tpu: choose one of auto, cpu, cuda", ModelSettings, model="m", device="tpu")


@pytest.mark.parametrize("value", ["a.txt", Path("a.txt"), ["a.txt"], ("a.txt",), [Path("a.txt")]])
def test_one_text_or_several_make_a_tuple_of_texts(value):
    assert make_group(CorpusSettings, {"corpus": value}).corpus == ("a.txt",)


@pytest.mark.parametrize("value", [5, [1, 2], {"a": "b"}, None])
def test_what_is_no_text_is_no_list_of_texts(value):
    message = f"--corpus {value}: must be text or a list of texts"
    refused(message, CorpusSettings, corpus=value)


def test_a_path_may_stand_for_text():
    assert make_group(ModelSettings, {"model": Path("models/m")}).model == "models/m"


def test_a_setting_that_is_needed_is_asked_for_with_its_help():
    refused("--model is needed: " + ModelSettings.__dataclass_fields__["model"].metadata["help"],
            ModelSettings)  # fmt: skip


def test_keywords_go_to_their_groups():
    corpus, workers = split_keywords(
        (CorpusSettings, WorkerSettings), {"corpus": "a.txt", "workers": 2}
    )
    assert (corpus.corpus, workers.workers) == (("a.txt",), 2)


def test_an_unknown_keyword_is_refused_with_the_nearest_known_one():
    with pytest.raises(BadInput, match="unknown key 'contxt'; the nearest known one is 'context'"):
        split_keywords((ExtractSettings, WorkerSettings), {"contxt": 3})


def test_a_keyword_of_another_command_is_unknown():
    with pytest.raises(BadInput, match="unknown key 'stride'"):
        split_keywords((CorpusSettings, WorkerSettings), {"corpus": "a", "stride": 3})


def test_a_file_gives_tables_and_the_store(toml):
    path = toml('store = "x.store"\n[extract]\nbatch-tokens = 8\n[corpus]\ncorpus = ["a", "b"]\n')
    assert read_file(path) == {
        "store": "x.store",
        "extract": {"batch_tokens": 8},
        "corpus": {"corpus": ["a", "b"]},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[extrakt]\n", "unknown key 'extrakt'; the nearest known one is 'extract'"),
        ("stor = 'x'\n", "unknown key 'stor'; the nearest known one is 'store'"),
        ("[extract]\nstrid = 1\n", r"\[extract\]: unknown key 'strid'; the nearest .* 'stride'"),
        ("[workers]\ncpus-per-wrker = 1\n", "nearest known one is 'cpus_per_worker'"),
        ("[corpus]\nmodel = 'm'\n", r"\[corpus\]: unknown key 'model'"),
        ("corpus = 'a.txt'\n", r"\[corpus\] must be a table of settings"),
        ("store = ['x']\n", "store must be text"),
        ("[corpus\n", "is not TOML"),
        ("x = 1\nx = 2\n", "is not TOML"),
    ],
)
def test_a_file_with_anything_unknown_in_it_is_refused(toml, text, message):
    path = toml(text)
    with pytest.raises(BadInput, match=message) as caught:
        read_file(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_utf8_or_not_there_or_a_folder_is_refused(tmp_path):
    (tmp_path / "latin").write_bytes(b"store = '\xe9'\n")
    for name, message in (("latin", "not TOML"), ("no", "No such file"), ("", "Is a directory")):
        with pytest.raises(BadInput, match=message):
            read_file(tmp_path / name)


def test_every_setting_has_help():
    for group in GROUPS.values():
        assert all(item.metadata["help"] for item in dataclasses.fields(group))


@pytest.mark.parametrize(
    ("group", "given"),
    [
        ("corpus", {"corpus": ["a\0b"]}),
        ("model", {"model": "a\0b"}),
        ("cluster", {"name": "a\0b"}),
        ("evaluate", {"text": ["a"], "out": "a\0b"}),
    ],
)
def test_a_nul_byte_in_a_name_or_path_is_refused(group, given):
    with pytest.raises(BadInput, match="NUL byte"):
        make_group(GROUPS[group], given)


def test_temperature_is_that_of_drawing_wherever_it_is_a_setting():
    """As in transformers; that of the candidates' weights has a name of its own."""
    named = [name for name, group in GROUPS.items() if "temperature" in group.__annotations__]
    assert named == ["generate"]
    assert all("knn_temperature" in GROUPS[name].__annotations__ for name in ("evaluate", "load"))
