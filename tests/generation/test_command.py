"""`retomaton generate`: what it prints, what it explains, and what it refuses."""

import ast
import re
from types import SimpleNamespace

import numpy as np
import pytest

import retomaton_dist as rd
from retomaton_dist.cli.generated import kind_of
from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.errors import BadInput
from retomaton_dist.generation.token_sources import explain
from tests.cli.checks import check_refused
from tests.generation.stores import QUIET, loaded

CONSTANTS = ("--method", "retomaton", "--tau", 4, "--lambda", 0.6, "--knn-temperature", 8)
CLOSING = re.compile(
    r"\d+ tokens in [\d.]+ s, [\d.]+ tokens/s; FoSS [\d.]+, [\d,]+ searches, prompts included; "
    r"\d+ of \d+ drafted tokens accepted, [\d.]+ tokens per forward pass"
)


@pytest.fixture(scope="module")
def store(store_of):
    return store_of("gpt2")


@pytest.fixture(scope="module")
def lm(store):
    return loaded(store)


@pytest.fixture(scope="module")
def expected(store):
    """What Python generates for a prompt with the walk that the command takes."""
    from retomaton_dist.generation.loaded import load

    lm = load(store, method="retomaton", tau=4, lambda_=0.6, knn_temperature=8.0)

    def text(prompt, **asked):
        return lm.generate([prompt], max_new_tokens=10, **asked)[0]

    return text


def test_a_text_is_printed_behind_its_prompt(command, store, expected):
    result = command("generate", store, "--prompt", "the law", "--max-new-tokens", 10, *CONSTANTS)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"the law{expected('the law').text}\n"
    described, closing = result.stderr.splitlines()[-2:]
    assert described.startswith("retomaton of ")
    assert CLOSING.fullmatch(closing)


def test_every_line_of_a_file_is_a_prompt(command, store, expected, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the law\n\nof\n")
    chosen = ("--prompts", prompts, "--max-new-tokens", 10, "--draft", 0)
    result = command("generate", store, *chosen, *CONSTANTS)
    wanted = [f"{prompt}{expected(prompt).text}" for prompt in ("the law", "of")]
    assert result.stdout == "\n".join(wanted) + "\n"
    assert " 0 of 0 drafted tokens" in result.stderr


def test_lines_are_taken_from_standard_input(command, store, expected, monkeypatch):
    monkeypatch.setattr("sys.stdin", iter(["the law\n"]))
    result = command("generate", store, "-", "--max-new-tokens", 10, *CONSTANTS)
    assert result.stdout == f"the law{expected('the law').text}\n"


def test_a_seed_draws_the_text_that_python_draws(command, store, expected):
    drawn = ("--do-sample", "--seed", 5, "--max-new-tokens", 10)
    result = command("generate", store, "--prompt", "the law", *drawn, *CONSTANTS)
    assert result.stdout == f"the law{expected('the law', do_sample=True, seed=5).text}\n"


def test_an_explained_text_has_a_row_per_token_with_its_mark_and_source(command, store, expected):
    asked = ("--prompt", "the law", "--max-new-tokens", 10, "--explain", "--sources", 2)
    result = command("generate", store, *asked, *CONSTANTS)
    text = expected("the law")
    head = result.stdout.index("token\n")
    rows = [row for row in result.stdout[head:].splitlines()[1:] if re.match(r" *[SUWL]D? ", row)]
    assert len(rows) == len(text.tokens)
    assert "S searched, U looked up by suffix, W walked to" in result.stdout
    assert any("corpus.txt" in row for row in rows)
    for row, log_p, searched in zip(rows, text.log_p, text.searched, strict=True):
        mark, shown = row.split()[:2]
        assert float(shown) == pytest.approx(np.exp(log_p), abs=1e-3)
        assert mark[0] in ("SL" if searched else "UWL")


def test_a_token_is_the_lms_where_the_automaton_made_it_no_likelier():
    scores = TokenScores.empty(4)
    log_p, searched = [-2.0, -1.0, -1.0, -1.0], [True, True, False, False]
    scores.put(slice(None), log_p=log_p, searched=searched, matched=[0, 0, 3, 0])
    scores.put(slice(None), log_lm=[-1.0, -2.0, -2.0, -2.0])
    kinds = [kind_of(scores, place) for place in range(4)]
    assert kinds == ["LM", "searched", "looked up", "walked"]


@pytest.mark.parametrize("chosen", [{}, {"method": "retomaton+suffix", "sigma": 2.0}])
def test_sources_are_entries_with_the_token_and_what_is_before_them(store, chosen):
    lm = loaded(store, **chosen)
    prompt = lm.tokenizer.encode(["the law of"])[0][0]
    text = lm.generate([prompt.tolist()], max_new_tokens=8)[0]
    whole = np.concatenate([prompt, text.tokens])
    found = explain(lm, whole, len(prompt), most=3)
    assert len(found) == len(text.tokens)
    corpus = lm.store.corpus()
    for token, support in zip(text.tokens, found, strict=True):
        assert 0 <= support.alike <= support.candidates
        distances = [source.distance for source in support.sources]
        assert distances == sorted(distances)
        for source in support.sources:
            assert corpus.values(source.entry, source.entry + 1)[0] == token
            assert (
                source.position
                == source.entry - corpus.first_entries[corpus.document_of(source.entry)]
            )


def test_the_lm_alone_has_no_sources(store):
    lm = loaded(store, method="lm", tau=None, lambda_=None, knn_temperature=None)
    found = explain(lm, np.array([3, 4, 5], np.int32), 1, most=2)
    assert [(one.candidates, one.sources) for one in found] == [(0, ()), (0, ())]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "give --prompt TEXT, or --prompts FILE"),
        (["--prompt", "a", "--prompts", "b"], "give --prompt TEXT, or --prompts FILE"),
        (["--prompt", " "], "--prompt is empty"),
        (["--prompts", "nowhere.txt"], "cannot read --prompts nowhere.txt"),
        (["other.store", "--prompt", "a"], "give --prompt TEXT, or --prompts FILE"),
        (["--prompt", "a", "--num-beams", 2, "--draft", 3], "beams are not drafted"),
        (["--prompt", "a", "--top-p", 2], "--top-p 2"),
        (["--prompt", "a", "--max-new-tokens", 0], "--max-new-tokens 0"),
        (["--prompt", "a", "--method", "best"], "--method best: choose from lm"),
        (["--prompt", "a", "--tau", 0.5], "--tau 0.5"),
        (["--prompt", "a", "--foss", 1.5], "--foss 1.5"),
        (["--prompt", "a", "--method", "retomaton+pw"], "no calibration"),
    ],
)
def test_bad_input_is_one_line(command, store, given, said):
    check_refused(command("generate", store, *given), said)


def test_a_file_of_blanks_is_refused(command, store, tmp_path):
    (tmp_path / "blank.txt").write_text("\n \n")
    refused = command("generate", store, "--prompts", tmp_path / "blank.txt", *CONSTANTS)
    check_refused(refused, "no prompt in it")


def test_a_store_that_is_not_finished_is_refused_with_what_finishes_it(command, store, tmp_path):
    chosen = {"corpus": str(store.parent / "corpus.txt"), "split": "line"}
    rd.tokenize(tmp_path / "a.store", model=str(store.parent / "model"), **chosen, **QUIET)
    refused = command("generate", tmp_path / "a.store", "--prompt", "a", *CONSTANTS)
    check_refused(refused, "has no automaton", "retomaton compile")


def test_a_character_of_several_tokens_is_explained_whole(store):
    from retomaton_dist.cli.generated import Shown
    from retomaton_dist.settings import GenerateSettings

    lm = loaded(store)
    tokens = lm.tokenizer.encode(["the 🗼 café"])[0][0]
    text = SimpleNamespace(prompt="", prompt_tokens=tokens[:0], tokens=tokens)
    pieces = Shown(lm, GenerateSettings(prompt="x"))._pieces(text)
    assert "(part of a character)" in pieces
    whole = [piece for piece in pieces if piece != "(part of a character)"]
    assert "".join(map(ast.literal_eval, whole)) == "the 🗼 café"


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("max-new-tokens", 99999999999, "at most 1048576"),
        ("num-beams", 100000000, "at most 1024"),
        ("num-return-sequences", 10**6, "at most 1024"),
        ("batch", 10**6, "at most 1024"),
    ],
)
def test_what_would_fill_the_memory_is_refused_at_once(command, flag, value, said):
    line = ("generate", "a.store", "--prompt", "x", f"--{flag}", value)
    check_refused(command(*line), f"--{flag} {value}", said)


def test_python_has_the_same_bounds(lm):
    with pytest.raises(BadInput, match="max_new_tokens = 99999999999: must be 1 to 1,048,576"):
        lm.generate("the law", max_new_tokens=99999999999)


def test_a_keyword_that_python_does_not_take_is_refused_with_the_nearest(lm):
    with pytest.raises(BadInput, match="'max_length'; did you mean 'max_new_tokens'"):
        lm.generate("the law", max_length=50)
    with pytest.raises(BadInput, match="score: unknown argument 'text'; did you mean 'texts'"):
        lm.score("the law", text=1)
