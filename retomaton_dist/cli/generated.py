"""How generated text is shown: as it comes, with colours or marks, and with its sources."""

import math
import sys
from collections.abc import Callable

import numpy as np

from retomaton_dist.engine.token_scores import TokenScores
from retomaton_dist.generation.decoding import Effort
from retomaton_dist.generation.generate import Generated, ends_of
from retomaton_dist.generation.loaded import RetomatonLM
from retomaton_dist.generation.text_request import GrownText
from retomaton_dist.generation.token_sources import Support, explain
from retomaton_dist.settings import GenerateSettings

# What a token is due to, with the mark of the table and the colour of the terminal.
MARKS = {"searched": "S", "looked up": "U", "walked": "W", "LM": "L"}
COLOURS = {"searched": "31", "looked up": "35", "walked": "32", "LM": "0"}
DRAFTED, DRAFTED_COLOUR = "D", "4"
LEGEND = (
    "S searched, U looked up by suffix, W walked to, L the LM's (the automaton made it no likelier)"
    ", D drafted"
)
HEAD = ("", "p", "LM's p", "candidates")


class Shown:
    """Prints texts of one command, and adds up what they took."""

    def __init__(self, lm: RetomatonLM, settings: GenerateSettings) -> None:
        self._lm, self._settings = lm, settings
        self._coloured = settings.explain and sys.stdout.isatty()
        self._efforts: list[Effort] = []
        self._ends = ends_of(lm)
        self._searched = self._tokens = 0
        # Characters of the text that are printed already.
        self._printed = 0

    @property
    def begun(self) -> bool:
        """Whether any text is finished."""
        return bool(self._efforts)

    def stream(self, prompt: str) -> Callable[[GrownText], None]:
        """Print the prompt, and have every token printed as it comes."""
        print(prompt, end="", flush=True)
        tokens = self._lm.tokenizer.encode([prompt])[0][0].tolist()
        self._printed = len(self._lm.tokenizer.decode(tokens))

        def show(new: GrownText) -> None:
            token = int(new.scores.tokens[0])
            tokens.append(token)
            text = self._lm.tokenizer.decode(tokens)
            # A character of several tokens is shown when its last byte is there.
            if not text.endswith("\ufffd") and token not in self._ends:
                print(self._painted(text[self._printed :], new), end="", flush=True)
                self._printed = len(text)

        return show

    def finished(self, text: Generated, *, streamed: bool) -> None:
        """Print what is left to be printed of a text."""
        if text.effort not in self._efforts:
            self._efforts.append(text.effort)
        self._searched += int(text.searched.sum())
        self._tokens += len(text.tokens)
        print((text.prompt + text.text)[self._printed if streamed else 0 :])
        if self._settings.explain:
            self._explain(text)

    def closing(self) -> str:
        """One line: FoSS, tokens per second, searches, drafts."""
        efforts = self._efforts
        seconds = sum(effort.seconds for effort in efforts)
        tokens, forwards, searches, drafted, accepted = (
            sum(getattr(effort, name) for effort in efforts)
            for name in ("tokens", "forwards", "searches", "drafted", "accepted")
        )
        foss = 1 - self._searched / max(self._tokens, 1)
        speed = tokens / seconds if seconds else 0.0
        return (
            f"{tokens:,} tokens in {seconds:.1f} s, {speed:.1f} tokens/s; FoSS {foss:.3f}, "
            f"{searches:,} searches, prompts included; {accepted:,} of {drafted:,} drafted tokens "
            f"accepted, {tokens / max(forwards, 1):.2f} tokens per forward pass"
        )

    def _explain(self, text: Generated) -> None:
        lm = self._lm
        whole = np.concatenate([text.prompt_tokens, text.tokens])
        found = explain(lm, whole, len(text.prompt_tokens), self._settings.sources)
        print(f"\n{LEGEND}")
        print("{:>4}{:>8}{:>8}{:>16}  token".format(*HEAD))
        pieces = self._pieces(text)
        for place, support in enumerate(found):
            self._row(text, place, support, pieces[place])
        print()

    def _pieces(self, text: Generated) -> list[str]:
        """What each token adds to the text; a character of several tokens stands with its last."""
        tokens, shown, pieces = text.prompt_tokens.tolist(), len(text.prompt), []
        for token in text.tokens.tolist():
            tokens.append(token)
            whole = self._lm.tokenizer.decode(tokens)
            complete = not whole.endswith("\ufffd")
            pieces.append(repr(whole[shown:]) if complete else "(part of a character)")
            shown = len(whole) if complete else shown
        return pieces

    def _row(self, text: Generated, place: int, support: Support, token: str) -> None:
        kind = kind_of(text, place)
        mark = MARKS[kind] + (DRAFTED if text.accepted[place] else "")
        p, lm = (math.exp(logs[place]) for logs in (text.log_p, text.log_lm))
        alike = f"{support.alike:,} of {support.candidates:,}"
        line = f"{mark:>4}{p:8.3f}{lm:8.3f}{alike:>16}  {token}"
        for source in support.sources or (None,):
            if source is not None:
                line = f"{line:<56} {source.document}, {source.position}: ...{source.before!r}"
            print(line)
            line = ""

    def _painted(self, text: str, new: GrownText) -> str:
        if not self._coloured:
            return text
        colour = COLOURS[kind_of(new.scores, 0)]
        codes = f"{colour};{DRAFTED_COLOUR}" if new.scores.accepted[0] else colour
        return f"\033[{codes}m{text}\033[0m"


def kind_of(scores: TokenScores, place: int) -> str:
    """What a token is due to: the LM where the automaton made it no likelier, else the walk."""
    if scores.log_p[place] <= scores.log_lm[place]:
        return "LM"
    return (
        "searched" if scores.searched[place] else "looked up" if scores.matched[place] else "walked"
    )
