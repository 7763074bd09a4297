"""Drafted texts are the undrafted ones, token by token, greedy and sampled, for several models."""

import numpy as np
import pytest

from retomaton_dist.errors import BadInput
from retomaton_dist.generation.drafting import drafting_for
from tests.generation.stores import FAMILIES, loaded, with_network

PROMPTS = 70
NEW = 12
# Tokens whose draws are this near to each other may change places: passes of other widths round
# otherwise.
NEAR = 1e-3


@pytest.fixture(scope="module", params=FAMILIES)
def lm(request, store_of):
    """A store of each family, with a walk whose shares are a network's."""
    return with_network(loaded(store_of(request.param)))


def prompts_of(lm, lines):
    tokens = [found for found, _ in lm.tokenizer.encode(lines[300:])]
    return [found[:9].tolist() for found in tokens if len(found)][:PROMPTS]


def first_difference(left, right):
    return int(np.argmin(left[: len(right)] == right[: len(left)]))


@pytest.mark.parametrize("do_sample", [False, True])
@pytest.mark.parametrize("draft", ["auto", 3])
def test_drafts_change_no_token(lm, lines, do_sample, draft):
    prompts = prompts_of(lm, lines)
    asked = {"max_new_tokens": NEW, "do_sample": do_sample, "top_p": 0.9, "seed": 3}
    plain = lm.generate(prompts, draft=0, **asked)
    drafted = lm.generate(prompts, draft=draft, **asked)
    assert sum(text.accepted.sum() for text in plain) == 0
    assert draft == "auto" or drafted[0].effort.drafted > len(prompts)
    differing = 0
    for one, other in zip(plain, drafted, strict=True):
        if not np.array_equal(one.tokens, other.tokens):
            at = first_difference(one.tokens, other.tokens)
            chances = one.log_p[at], other.log_p[at]
            assert do_sample or abs(chances[0] - chances[1]) < NEAR
            differing += 1
    assert differing <= (1 if do_sample else 0)


def test_drafts_are_accepted_and_save_forward_passes(lm, lines):
    prompts = prompts_of(lm, lines)[:8]
    (plain, *_) = lm.generate(prompts, max_new_tokens=NEW, draft=0)
    (drafted, *_) = lm.generate(prompts, max_new_tokens=NEW, draft=4)
    assert 0 < drafted.effort.accepted <= drafted.effort.drafted
    assert drafted.effort.forwards <= plain.effort.forwards


def test_beams_are_not_drafted(lm, lines):
    prompts = prompts_of(lm, lines)[:2]
    assert lm.generate(prompts, num_beams=2, max_new_tokens=4)[0].effort.drafted == 0
    with pytest.raises(BadInput, match="num_beams with drafting"):
        lm.generate(prompts, num_beams=2, draft=3)


@pytest.mark.parametrize("draft", [-1, "some", 2.5, True])
def test_a_draft_that_is_no_length_is_refused(lm, draft):
    with pytest.raises(BadInput, match="draft"):
        drafting_for(lm, draft)
