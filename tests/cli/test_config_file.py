"""`--config FILE`: the same settings from a file; flags win."""

import os

import pytest

from tests.cli.checks import check_refused_without_a_trace


@pytest.fixture
def configured(command, tmp_path, small_corpus, tiny_model):
    """Run `extract` with a file that says enough, and this besides."""

    def run(text="", *flags):
        path = tmp_path / "build.toml"
        path.write_text(
            f"store = '{tmp_path}/new.store'\n"
            f"[corpus]\ncorpus = '{small_corpus}'\nsplit = 'line'\n"
            f"[model]\nmodel = '{tiny_model}'\n" + text
        )
        return command("extract", "--config", path, *flags)

    return run


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[extract]\ncontxt = 3\n", "[extract]: unknown key 'contxt'; the nearest known one is"),
        ("[wrkers]\n", "unknown key 'wrkers'; the nearest known one is 'workers'"),
        ("[extract]\ncontext = 'many'\n", "--context many: must be a whole number"),
        ("[extract]\ncontext = 1000\n", "context 1000 is larger than the model's 64"),
        ("[extract\n", "is not TOML"),
    ],
)
def test_what_a_file_says_is_checked_as_flags_are(configured, tmp_path, text, said):
    check_refused_without_a_trace(configured(text), tmp_path / "new.store", said)


def test_a_flag_wins_over_the_file(configured, tmp_path):
    text = "[extract]\ncontext = 32\nstride = 16\n"
    result = configured(text, "--context", "8", "--stride", "9")
    check_refused_without_a_trace(
        result, tmp_path / "new.store", "--stride 9 is larger than --context 8"
    )


def test_a_file_that_is_not_there(command, tmp_path):
    result = command("extract", tmp_path / "new.store", "--config", tmp_path / "no.toml")
    check_refused_without_a_trace(result, tmp_path / "new.store", "no.toml: No such file")


def test_a_store_must_be_named_somewhere(command, small_corpus, tiny_model):
    result = command("extract", "--corpus", small_corpus, "--model", tiny_model)
    assert result.returncode == 2
    assert "no store was named" in result.stderr


def test_inside_a_ray_job_a_relative_store_is_refused(
    command, monkeypatch, tmp_path, small_corpus, tiny_model
):
    """A job's working directory is a copy that goes away with the job."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    result = command("extract", "new.store", "--corpus", small_corpus, "--model", tiny_model)
    check_refused_without_a_trace(result, tmp_path / "new.store", "give an absolute path")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_a_pipe_or_a_device_is_refused_and_not_read(command, tmp_path, name):
    """Nobody writes to the pipe, and the device never ends."""
    os.mkfifo(tmp_path / "pipe")
    result = command("build", tmp_path / "a.store", "--config", tmp_path / name)
    said = f"cannot read --config {tmp_path / name}: it is a pipe or a device"
    check_refused_without_a_trace(result, tmp_path / "a.store", said)


@pytest.mark.timeout(60)
def test_a_key_without_end_is_refused_at_once_and_in_short(configured, tmp_path):
    result = configured(f"[extract]\n{'k' * 100_000} = 3\n")
    check_refused_without_a_trace(result, tmp_path / "new.store", "unknown key 'kkk")
    assert len(result.stderr) < 1000
