"""Runs `retomaton generate`: text that goes on from prompts, printed as it comes."""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from retomaton_dist.cli.command import Invocation
from retomaton_dist.errors import BadInput
from retomaton_dist.settings import GenerateSettings

STANDARD_INPUT = "-"
# Settings of the command that are not those of `lm.generate`.
OWN = ("prompt", "prompts", "explain", "sources")
# Batches of a file's prompts that are given to one call.
GROUP = 8


def run(call: Invocation) -> int:
    """Generate for every prompt, and say in the end what it took."""
    settings: GenerateSettings = call.settings["generate"]
    prompts = _prompts(settings)
    from retomaton_dist.cli.generated import Shown
    from retomaton_dist.generation.loaded import load_with

    lm = load_with(call.store, call.settings["load"])
    print(lm, file=sys.stderr)
    shown = Shown(lm, settings)
    asked = {name: value for name, value in asdict(settings).items() if name not in OWN}
    asked |= {
        "stop": settings.stop or (),
        "draft": "auto" if asked["draft"] is None else asked["draft"],
    }
    one_by_one = settings.prompt is not None or settings.prompts == STANDARD_INPUT
    # As one text ends, the next begins; but what is finished should not wait for too many others.
    # Beams do not wait for rows.
    groups = 1 if settings.num_beams > 1 else GROUP
    size = 1 if one_by_one else groups * settings.batch
    while group := list(itertools.islice(prompts, size)):
        if not shown.begun:
            # What is done once, such as loading kernels, is not part of the speed that is shown.
            lm.generate(group[:1], max_new_tokens=2, draft=0)
        # Several texts would be printed into each other; a stop string must not be printed.
        one = len(group) == settings.num_return_sequences == settings.num_beams == 1
        streamed = one and settings.stop is None
        for text in lm.generate(group, watch=shown.stream(group[0]) if streamed else None, **asked):
            shown.finished(text, streamed=streamed)
    print(shown.closing(), file=sys.stderr)
    return 0


def _prompts(settings: GenerateSettings) -> Iterator[str]:
    """The prompts, blank lines left out; a file that cannot be read is refused at once."""
    if settings.prompt is not None:
        if not settings.prompt.strip():
            raise BadInput("--prompt is empty: give some text to go on from")
        return iter([settings.prompt])
    if settings.prompts == STANDARD_INPUT:
        return (line.rstrip("\n") for line in sys.stdin if line.strip())
    try:
        lines = Path(str(settings.prompts)).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadInput(f"cannot read --prompts {settings.prompts}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"--prompts {settings.prompts} is not UTF-8: {error}") from error
    if not any(map(str.strip, lines)):
        raise BadInput(f"--prompts {settings.prompts}: there is no prompt in it, only blanks")
    return filter(str.strip, lines)
