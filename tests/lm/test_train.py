"""Training learns, resumes to the same weights, and leaves an ordinary Hugging Face folder."""

import dataclasses
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from retomaton_dist.errors import BadInput, DamagedStore, ModelError
from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.train import blocks_of, fraction_done, hold_out, learning_rate, train
from retomaton_dist.settings import ModelSettings, TrainSettings
from tests.lm.tiny import byte_level_tokenizer, save_model, spec_of

ROOT = Path(__file__).parents[2]
SENTENCE = "the key of an entry is near the state that a pointer walks to"
TEXTS = [SENTENCE[i % 29 :] + SENTENCE[: i % 23] + f" in document {i}.\n" for i in range(60)]
SMALL = TrainSettings(
    steps=30,
    vocabulary=300,
    layers=1,
    width=16,
    heads=2,
    context=16,
    batch_tokens=128,
    learning_rate=1e-2,
    validation=0.1,
    threads=1,
    device="cpu",
)


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the product catches it."""


def killed_after(last):
    def progress(step, fraction, loss):
        if step == last:
            raise Killed

    return progress


class Seen(list):
    """What progress was reported, step by step."""

    def __call__(self, step, fraction, loss):
        self.append((step, fraction, loss))

    @property
    def steps(self):
        return [step for step, _, _ in self]

    @property
    def losses(self):
        return [loss for _, _, loss in self]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run: its folder, its result, and the progress that it reported."""
    folder, seen = tmp_path_factory.mktemp("lm") / "model", Seen()
    return folder, train(SMALL, TEXTS, folder, seen), seen


def weights(folder):
    return load_file(folder / "model.safetensors")


def test_the_loss_falls_on_text_seen_and_unseen(trained):
    _, result, seen = trained
    assert seen.losses[0] == pytest.approx(math.log(300), rel=0.1)
    assert seen.losses[-1] < 0.7 * seen.losses[0]
    assert result.perplexity < 0.3 * math.exp(seen.losses[0])


def test_progress_is_reported_at_every_step(trained):
    _, result, seen = trained
    assert seen.steps == list(range(1, 31))
    assert [fraction for _, fraction, _ in seen] == pytest.approx([n / 30 for n in range(1, 31)])
    assert result.steps == 30


def test_the_result_is_an_ordinary_folder(trained):
    folder, _, _ = trained
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (model.config.model_type, model.config.n_positions) == ("gpt2", 16)
    assert tokenizer.bos_token_id == tokenizer.eos_token_id == model.config.eos_token_id == 0
    assert model.config.vocab_size == len(tokenizer)
    assert tokenizer.decode(tokenizer(TEXTS[0])["input_ids"]) == TEXTS[0]
    assert (folder / "model.safetensors").is_file()
    assert not (folder / "training.pt").exists()
    assert not (folder / ".new").exists()


def test_the_perplexity_is_that_of_the_saved_model_on_the_held_out_documents(trained):
    folder, result, _ = trained
    spec, _ = identify(ModelSettings(model=str(folder), key="final_hidden"))
    _, held = hold_out(TEXTS, 0.1, 0)
    rows = torch.tensor(blocks_of(AutoTokenizer.from_pretrained(folder), held, 16))
    _, logits = LanguageModel.load(spec, "cpu").keys_and_logits(rows[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()
    assert result.perplexity == pytest.approx(math.exp(loss), rel=1e-4)


def test_training_json_says_where_the_number_comes_from(trained):
    folder, result, _ = trained
    record = json.loads((folder / "training.json").read_text())
    assert record["run"]["learning_rate"] == 1e-2
    assert record["result"]["perplexity"] == result.perplexity
    assert record["result"]["steps"] == 30


@pytest.mark.parametrize("kills", [(1,), (7, 19), (30,)])
def test_a_run_killed_and_run_again_ends_with_the_same_weights(trained, tmp_path, kills):
    settings = dataclasses.replace(SMALL, checkpoint_seconds=0.0)
    for step in kills:
        with pytest.raises(Killed):
            train(settings, TEXTS, tmp_path / "model", killed_after(step))
    seen = Seen()
    train(settings, TEXTS, tmp_path / "model", seen)
    assert seen.steps == list(range(kills[-1] + 1, 31))
    undisturbed, resumed = weights(trained[0]), weights(tmp_path / "model")
    assert all(torch.equal(undisturbed[name], resumed[name]) for name in undisturbed)


VICTIM = """
import dataclasses, sys, time
from tests.lm.test_train import SMALL, TEXTS, train

def progress(step, fraction, loss):
    if step == 12:
        print("kill me", flush=True)
        time.sleep(300)

train(dataclasses.replace(SMALL, checkpoint_seconds=0.0), TEXTS, sys.argv[1], progress)
"""


@pytest.mark.slow
def test_a_process_that_was_killed_is_taken_over(trained, tmp_path):
    command = [sys.executable, "-c", VICTIM, str(tmp_path / "model")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as victim:
        assert victim.stdout.readline() == "kill me\n"
        victim.kill()
    assert not (tmp_path / "model" / "model.safetensors").exists()
    seen = Seen()
    train(SMALL, TEXTS, tmp_path / "model", seen)
    assert seen.steps[0] == 13
    undisturbed, resumed = weights(trained[0]), weights(tmp_path / "model")
    assert all(torch.equal(undisturbed[name], resumed[name]) for name in undisturbed)


def test_a_run_killed_before_its_first_checkpoint_begins_again(trained, tmp_path):
    with pytest.raises(Killed):
        train(SMALL, TEXTS, tmp_path / "model", killed_after(5))
    train(SMALL, TEXTS, tmp_path / "model")
    undisturbed, again = weights(trained[0]), weights(tmp_path / "model")
    assert all(torch.equal(undisturbed[name], again[name]) for name in undisturbed)


def test_the_time_of_earlier_processes_counts(tmp_path):
    timed = dataclasses.replace(SMALL, steps=None, minutes=1.0, checkpoint_seconds=0.0)
    with pytest.raises(Killed):
        train(timed, TEXTS, tmp_path / "model", killed_after(3))
    checkpoint = tmp_path / "model" / "training.pt"
    torch.save({**torch.load(checkpoint), "seconds": 59.95}, checkpoint)
    seen = Seen()
    result = train(timed, TEXTS, tmp_path / "model", seen)
    assert seen.steps[0] == 4
    assert 60 <= result.seconds < 62


def test_a_finished_run_is_not_trained_again(trained):
    folder, result, _ = trained
    assert train(SMALL, TEXTS, folder, killed_after(1)) == result


@pytest.mark.parametrize(
    ("change", "texts", "message"),
    [
        ({"learning_rate": 0.5}, TEXTS, "learning_rate is 0.01 there and 0.5 now"),
        ({"seed": 3}, TEXTS, "seed is 0 there and 3 now"),
        ({}, TEXTS[1:], "text is"),
    ],
)
def test_a_folder_with_another_run_is_refused_and_the_difference_named(
    trained, change, texts, message
):
    with pytest.raises(BadInput, match=message):
        train(dataclasses.replace(SMALL, **change), texts, trained[0])


def test_settings_may_be_mended_while_there_is_nothing_to_lose(tmp_path):
    with pytest.raises(Killed):
        train(
            dataclasses.replace(SMALL, vocabulary=400), TEXTS, tmp_path / "model", killed_after(1)
        )
    train(dataclasses.replace(SMALL, steps=2), iter(TEXTS), tmp_path / "model")
    assert len(AutoTokenizer.from_pretrained(tmp_path / "model")) == 300


def test_a_run_with_a_checkpoint_is_not_overwritten(tmp_path):
    settings = dataclasses.replace(SMALL, checkpoint_seconds=0.0)
    with pytest.raises(Killed):
        train(settings, TEXTS, tmp_path / "model", killed_after(2))
    with pytest.raises(BadInput, match="layers is 1 there and 2 now"):
        train(dataclasses.replace(settings, layers=2), TEXTS, tmp_path / "model")


def test_a_folder_with_anything_else_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("do not overwrite")
    with pytest.raises(BadInput, match="neither an empty folder"):
        train(SMALL, TEXTS, tmp_path)


def test_what_a_kill_left_of_the_first_checkpoint_is_no_reason_to_refuse(trained, tmp_path):
    (tmp_path / ".training.pt.1f.tmp").write_bytes(b"half")
    train(SMALL, TEXTS, tmp_path)
    undisturbed, again = weights(trained[0]), weights(tmp_path)
    assert all(torch.equal(undisturbed[name], again[name]) for name in undisturbed)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"status": "running"}'])
def test_a_damaged_record_is_refused(tmp_path, content):
    (tmp_path / "training.json").write_text(content)
    with pytest.raises(DamagedStore, match=r"training\.json"):
        train(SMALL, TEXTS, tmp_path)


@pytest.mark.parametrize("left", [0, 500, -100])
def test_a_damaged_checkpoint_is_refused(tmp_path, left):
    settings = dataclasses.replace(SMALL, checkpoint_seconds=0.0)
    with pytest.raises(Killed):
        train(settings, TEXTS, tmp_path / "model", killed_after(2))
    checkpoint = tmp_path / "model" / "training.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:left])
    with pytest.raises(BadInput, match=r"training\.pt is damaged"):
        train(settings, TEXTS, tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "--steps 0"),
        ({"minutes": -1.0}, "--minutes -1"),
        ({"validation": 1.0}, "--validation 1: "),
        ({"vocabulary": 200}, "--vocabulary 200: must be at least 257"),
        ({"heads": 3}, "multiple of --heads 3"),
        ({"context": 0}, "--context 0: must be at least 2"),
        ({"context": 1}, "--context 1: must be at least 2"),
        ({"seed": -1}, "--seed -1"),
        ({"layers": 10**6}, "--layers 1000000: "),
        ({"width": 1 << 40}, "--width "),
        ({"batch_tokens": 0}, "--batch-tokens 0"),
    ],
)
def test_settings_that_cannot_be_are_refused_and_leave_nothing_behind(tmp_path, change, message):
    with pytest.raises(BadInput, match=message):
        train(dataclasses.replace(SMALL, **change), TEXTS, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_rate_that_makes_training_diverge_is_said_so(tmp_path):
    wild = dataclasses.replace(SMALL, learning_rate=1e30)
    with pytest.raises(ModelError, match="lower --learning-rate"):
        train(wild, TEXTS, tmp_path / "model")
    assert not (tmp_path / "model").exists(), "no checkpoint, so there is nothing to go on with"


def test_the_rate_goes_up_then_down_to_nothing():
    rates = [learning_rate(SMALL, n / 100) for n in range(101)]
    assert rates[0] == rates[100] == 0
    assert max(rates) == SMALL.learning_rate
    top = rates.index(max(rates))
    assert rates == sorted(rates[:top]) + sorted(rates[top:], reverse=True)


def test_a_run_ends_by_steps_or_time_whichever_comes_first():
    both = dataclasses.replace(SMALL, steps=10, minutes=1.0)
    assert fraction_done(both, 5, 12) == 0.5
    assert fraction_done(both, 5, 48) == 0.8
    assert fraction_done(both, 11, 0) == fraction_done(both, 0, 99) == 1
    assert fraction_done(dataclasses.replace(SMALL, steps=4), 1, 1e9) == 0.25
    timed = dataclasses.replace(SMALL, steps=None, minutes=1.0)
    assert fraction_done(timed, 10**6, 30) == 0.5
    assert fraction_done(dataclasses.replace(SMALL, steps=None), 1000, 1e9) == 0.5


def test_minutes_alone_end_a_run(tmp_path):
    timed = dataclasses.replace(SMALL, steps=None, minutes=0.005)
    result = train(timed, TEXTS, tmp_path / "model")
    assert result.seconds >= 0.3
    assert result.steps > 0


FINE = dataclasses.replace(SMALL, context=None, steps=15, learning_rate=5e-3)


def test_fine_tuning_starts_where_the_model_was(trained, tmp_path):
    folder, _, _ = trained
    other = [text.replace("key", "lock").replace("walks", "runs") for text in TEXTS]
    seen = Seen()
    after = train(dataclasses.replace(FINE, init=str(folder)), other, tmp_path, seen)
    assert seen.losses[0] < math.log(300) - 1
    assert seen.losses[-1] < seen.losses[0]
    assert AutoTokenizer.from_pretrained(tmp_path).get_vocab() == load_vocabulary(folder)
    assert json.loads((tmp_path / "training.json").read_text())["run"]["init"] == str(folder)
    assert after.perplexity < math.exp(seen.losses[0])


def load_vocabulary(folder):
    return AutoTokenizer.from_pretrained(folder).get_vocab()


def test_fine_tuning_resumes_to_the_same_weights_also_with_dropout(trained, tmp_path):
    init = shutil.copytree(trained[0], tmp_path / "init")
    config = json.loads((init / "config.json").read_text())
    (init / "config.json").write_text(json.dumps({**config, "resid_pdrop": 0.1}))
    settings = dataclasses.replace(FINE, init=str(init), checkpoint_seconds=0.0)
    with pytest.raises(Killed):
        train(settings, TEXTS, tmp_path / "a", killed_after(6))
    train(settings, TEXTS, tmp_path / "a")
    train(settings, TEXTS, tmp_path / "b")
    first, second = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_model_of_another_family_can_be_fine_tuned(tmp_path):
    init = save_model("llama", tmp_path / "init")
    byte_level_tokenizer(eos_token="<|endoftext|>").save_pretrained(init)
    seen = Seen()
    train(dataclasses.replace(FINE, init=str(init)), TEXTS, tmp_path / "out", seen)
    assert seen.losses[-1] < seen.losses[0]
    assert LanguageModel.load(spec_of(tmp_path / "out"), "cpu").dimension == 16


def test_an_init_whose_tokenizer_does_not_match_is_refused(trained, tmp_path):
    init = shutil.copytree(trained[0], tmp_path / "init")
    byte_level_tokenizer(special="<s>", vocabulary=320).save_pretrained(init)
    byte_level_tokenizer().save_pretrained(save_model("gpt2", init, vocabulary=280))
    with pytest.raises(ModelError, match="does not match the model"):
        train(dataclasses.replace(FINE, init=str(init)), TEXTS, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_init_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ModelError, match="no such file or folder"):
        train(dataclasses.replace(FINE, init=str(tmp_path / "no")), TEXTS, tmp_path / "out")


def test_a_context_beyond_that_of_the_init_is_refused(trained, tmp_path):
    long = dataclasses.replace(FINE, init=str(trained[0]), context=17)
    with pytest.raises(BadInput, match="larger than the model's 16"):
        train(long, TEXTS, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_init_than_the_runs_is_refused(trained, tmp_path):
    init = shutil.copytree(trained[0], tmp_path / "init")
    settings = dataclasses.replace(FINE, init=str(init))
    train(settings, TEXTS, tmp_path / "out")
    save_model("gpt2", init)
    with pytest.raises(BadInput, match="init_weights"):
        train(settings, TEXTS, tmp_path / "out")


def test_another_tokenizer_of_the_init_than_the_runs_is_refused(trained, tmp_path):
    init = shutil.copytree(trained[0], tmp_path / "init")
    settings = dataclasses.replace(FINE, init=str(init))
    train(settings, TEXTS, tmp_path / "out")
    byte_level_tokenizer(vocabulary=280).save_pretrained(init)
    with pytest.raises(BadInput, match="init_tokenizer"):
        train(settings, TEXTS, tmp_path / "out")


def test_an_init_cut_short_is_refused_before_anything_is_written(trained, tmp_path):
    init = shutil.copytree(trained[0], tmp_path / "init")
    file = init / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ModelError, match="weights of model"):
        train(dataclasses.replace(FINE, init=str(init)), TEXTS, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_training_says_nothing_on_stderr(tmp_path, capfd):
    train(dataclasses.replace(SMALL, steps=2), TEXTS, tmp_path / "model")
    assert capfd.readouterr().err == ""
