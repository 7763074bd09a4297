"""`retomaton generate`: text that goes on from prompts, as it comes, and where it comes from."""

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, readable_store
from retomaton_dist.errors import BadInput

if TYPE_CHECKING:
    from retomaton_dist.cli.generated import Shown
    from retomaton_dist.generation.loaded import RetomatonLM
    from retomaton_dist.settings import GenerateSettings

STANDARD_INPUT = "-"
# Prompts of a file that are given to one call, in batches.
GROUP = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store, and - for standard input."""
    add_store(parser)
    parser.add_argument(
        "lines",
        metavar="-",
        nargs="?",
        help="go on from every line of standard input, as --prompts - does",
    )


def run(call: Invocation) -> int:
    """Generate for every prompt, and say in the end what it took."""
    settings = _with_lines(call).group("generate")
    chosen, store = call.group("load"), readable_store(call)
    prompts = _prompts(settings)
    from retomaton_dist.cli.generated import Shown
    from retomaton_dist.generation.loaded import load_with

    lm = load_with(store, chosen)
    print(lm, file=sys.stderr)
    shown = Shown(lm, settings)
    one_by_one = settings.prompt is not None or settings.prompts == STANDARD_INPUT
    # As one text ends, the next begins; but what is finished should not wait for too many others.
    size = 1 if one_by_one else GROUP * settings.batch
    while group := list(itertools.islice(prompts, size)):
        if not shown.begun:
            # What is done once, such as loading kernels, is not part of the speed that is shown.
            lm.generate(group[:1], max_new_tokens=2, draft=0)
        _generate(lm, group, settings, shown)
    print(shown.closing(), file=sys.stderr)
    return 0


def _generate(
    lm: "RetomatonLM", prompts: Sequence[str], settings: "GenerateSettings", shown: "Shown"
) -> None:
    # Several texts would be printed into each other; a stop string must not be printed.
    one = len(prompts) == settings.num_return_sequences == settings.num_beams == 1
    streamed = one and settings.stop is None
    made = lm.generate(
        prompts,
        max_new_tokens=settings.max_new_tokens,
        do_sample=settings.do_sample,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        num_beams=settings.num_beams,
        repetition_penalty=settings.repetition_penalty,
        stop=settings.stop or (),
        seed=settings.seed,
        num_return_sequences=settings.num_return_sequences,
        draft="auto" if settings.draft is None else settings.draft,
        watch=shown.stream(prompts[0]) if streamed else None,
        batch=settings.batch,
    )
    for text in made:
        shown.finished(text, streamed=streamed)


def _with_lines(call: Invocation) -> Invocation:
    """The same call with `-` as --prompts."""
    if (given := call.get("lines")) is None:
        return call
    if given != STANDARD_INPUT:
        raise BadInput(f"{given}: name one store, then --prompt, --prompts, or - for lines typed")
    flags = {**call.flags, "prompts": STANDARD_INPUT}
    return Invocation(flags, call.file, call.defaults, call.flagged)


def _prompts(settings: "GenerateSettings") -> Iterator[str]:
    """The prompts, blank lines left out; a file that cannot be read is refused at once."""
    if settings.prompt is not None:
        if not settings.prompt.strip():
            raise BadInput("--prompt is empty: give some text to go on from")
        return iter([settings.prompt])
    if settings.prompts == STANDARD_INPUT:
        return (line.rstrip("\n") for line in sys.stdin if line.strip())
    try:
        with Path(str(settings.prompts)).open(encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in file if line.strip()]
    except OSError as error:
        raise BadInput(f"cannot read --prompts {settings.prompts}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"--prompts {settings.prompts} is not UTF-8: {error}") from error
    if not lines:
        raise BadInput(f"--prompts {settings.prompts}: there is no prompt in it, only blanks")
    return iter(lines)


COMMAND = Command(
    name="generate",
    summary="Go on from prompts with the automaton, token by token as they come.",
    groups=("generate", "load"),
    arguments=add_arguments,
    run=run,
    examples="""
        with the newest calibration of the store (`retomaton calibrate` makes one):
          retomaton generate law.store --prompt 'Having regard to the Treaty'

        where does each token come from?
          retomaton generate law.store --prompt 'Having regard to the Treaty' --explain

        drawn at random, three texts, always the same ones for a seed:
          retomaton generate law.store --prompt 'Whereas' --do-sample --top-p 0.9 \\
              --num-return-sequences 3 --seed 7

        a prompt per line, eight side by side; or lines as they are typed:
          retomaton generate law.store --prompts prompts.txt --max-new-tokens 40
          retomaton generate law.store -

        few searches, no drafts; the LM alone, to compare:
          retomaton generate law.store --prompt 'Whereas' --foss 0.8 --draft 0
          retomaton generate law.store --prompt 'Whereas' --method lm
    """,
)
