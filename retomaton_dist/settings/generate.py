"""The settings of generating text."""

from dataclasses import dataclass

from retomaton_dist.errors import BadInput
from retomaton_dist.settings.option import Settings, option

# More would fill the memory before the first token.
MOST_NEW_TOKENS, MOST_TEXTS = 1 << 20, 1 << 10


@dataclass(frozen=True, kw_only=True)
class GenerateSettings(Settings):
    """What is generated, how tokens are chosen, and what is shown of it."""

    prompt: str | None = option("text to go on from", None, shown="none")
    prompts: str | None = option(
        "file with a prompt per line; - for lines as they come from standard input",
        None,
        shown="none",
    )
    max_new_tokens: int = option("tokens to generate at most", 64, least=1, most=MOST_NEW_TOKENS)
    do_sample: bool = option("draw tokens at random; else the most probable one is taken", False)
    temperature: float = option(
        "with --do-sample: below 1 likelier, above 1 more varied",
        1.0,
        above=0,
        below=float("inf"),
    )
    top_k: int | None = option("draw from the k most probable tokens", None, least=1, shown="all")
    top_p: float = option(
        "draw from the most probable tokens that have this much together", 1.0, above=0, most=1
    )
    num_beams: int = option("beams; 1: no beam search", 1, least=1, most=MOST_TEXTS)
    num_return_sequences: int = option("texts for every prompt", 1, least=1, most=MOST_TEXTS)
    repetition_penalty: float = option(
        "above 1: what was there already becomes less probable", 1.0, above=0, below=float("inf")
    )
    stop: str | None = option("end a text before this string", None, shown="none")
    seed: int = option("of what is drawn at random", 0, least=0, below=1 << 63)
    draft: int | None = option(
        "tokens that are guessed ahead, and verified by one forward pass: the text stays the same. "
        "0: none; auto: as many as pay",
        None,
        least=0,
        most=256,
    )
    batch: int = option(
        "prompts of a file that are continued side by side", 8, least=1, most=MOST_TEXTS
    )
    explain: bool = option(
        "show of every token whether it was searched, walked to, looked up, drafted or the LM's, "
        "and where the corpus has it",
        False,
    )
    sources: int = option(
        "with --explain: places in the corpus to list for a token", 1, least=1, most=1000
    )

    def check(self) -> None:
        """Refuse several sources of prompts, or none."""
        if (self.prompt is None) == (self.prompts is None):
            raise BadInput("give --prompt TEXT, or --prompts FILE, or --prompts - for lines typed")
        if self.num_beams > 1 and self.draft:
            raise BadInput(f"--num-beams with --draft {self.draft}: beams are not drafted")
