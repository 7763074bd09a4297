"""The settings of training a language model; light, so that `--help` stays fast."""

from dataclasses import dataclass

from retomaton_dist.errors import BadInput
from retomaton_dist.settings.option import Settings, option

# Every byte, and the token that ends a text.
LEAST_VOCABULARY = 257


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Settings):
    """What is trained, for how long, and how. `None` stands for `auto`."""

    init: str | None = option(
        "model to fine-tune: hub id, local folder or GGUF file; auto: a new GPT-2-style model "
        "with a byte-level BPE tokenizer of its own",
        None,
    )
    steps: int | None = option(
        "steps to train for; auto: 2000, or as many as --minutes allow", None, above=0
    )
    minutes: float | None = option(
        "minutes to train for at most, over all resumes, after reading and tokenizing; auto: no "
        "limit",
        None,
        above=0,
    )
    vocabulary: int = option(
        "tokens of a new tokenizer, at most", 2048, least=LEAST_VOCABULARY, below=1 << 24
    )
    layers: int = option("layers of a new model", 3, least=1, below=1 << 10)
    width: int = option("width of a new model's hidden states", 128, least=1, below=1 << 16)
    heads: int = option("attention heads of a new model", 4, least=1, below=1 << 10)
    context: int | None = option(
        "tokens that the model reads at once in training, and at most if it is new; auto: 128, "
        "or 256 for fine-tuning, or less if that model reads less",
        None,
        least=2,
        below=1 << 20,
    )
    batch_tokens: int = option("tokens per step", 512, least=1, below=1 << 24)
    learning_rate: float | None = option(
        "at its height; auto: 0.003, or 0.0002 for fine-tuning", None, above=0
    )
    validation: float = option(
        "share of the text that is held out to measure perplexity", 0.02, above=0, below=1
    )
    seed: int = option(
        "of a new model's weights, the held-out share and the order of text",
        0,
        least=0,
        below=1 << 63,
    )
    threads: int | None = option(
        "threads of torch; auto: one per CPU", None, above=0, below=1 << 10
    )
    device: str | None = option("auto: the GPU if there is one", None, choices=("cpu", "cuda"))
    checkpoint_seconds: float = option("seconds from one checkpoint to the next", 30.0, least=0)

    def check(self) -> None:
        """Refuse sizes that no new model can have."""
        if self.init is None and self.width % self.heads:
            raise BadInput(f"--width {self.width} must be a multiple of --heads {self.heads}")
