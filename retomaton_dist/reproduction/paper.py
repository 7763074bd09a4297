"""What the paper reports (Alon et al., ICML 2022, arXiv 2201.12431), number by number.

Points are (FoSS, perplexity), from the source of its figures. Clusterings of the ablation are named
as ours are: by entries per state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retomaton_dist.report.rows import Row, read_row

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Published:
    """An experiment of the paper: where it stands, with what it was done, and its curves."""

    place: str
    setting: str
    rows: tuple[Row, ...]


def _rows(found: Mapping[tuple[str, str | None], Points]) -> tuple[Row, ...]:
    return tuple(
        read_row(
            {
                "method": method,
                "clustering": clustering,
                "foss": foss,
                "perplexity": perplexity,
                # The paper gives no counts.
                "searches": 0,
            },
            "the paper",
        )
        for (method, clustering), points in found.items()
        for foss, perplexity in points
    )


IN_DOMAIN = Published(
    "figure 3",
    "WikiText-103: 103 M entries, LM of 247 M parameters, 1 M states",
    _rows(
        {
            ("lm", None): [(1.0, 18.66)],
            ("knnlm", None): [
                (0.0, 16.65), (0.1, 16.84), (0.3, 17.21), (0.5, 17.60), (0.7, 18.02),
                (0.9, 18.44), (1.0, 18.66),
            ],
            ("adaptret", None): [
                (0.0, 16.35), (0.1, 16.36), (0.3, 16.47), (0.5, 16.67), (0.7, 16.99),
                (0.9, 17.59), (1.0, 18.66),
            ],
            ("retomaton", "kmeans"): [
                (0.0, 16.08), (0.26, 16.16), (0.36, 16.22), (0.45, 16.27), (0.52, 16.31),
                (0.61, 16.37), (0.72, 16.47), (0.81, 16.65),
            ],
            ("retomaton", "none"): [
                (0.0, 16.12), (0.20, 16.18), (0.30, 16.23), (0.37, 16.29), (0.43, 16.35),
                (0.50, 16.43), (0.55, 16.50), (0.59, 16.57), (0.68, 16.85),
            ],
        }
    ),
)  # fmt: skip

ADAPTATION = Published(
    "figure 4; without clustering: figure 6, on the validation text",
    "Law-MT: 19 M entries, LM of news of 656 M parameters, 200 K states",
    _rows(
        {
            ("lm", None): [(1.0, 106.56)],
            ("knnlm", None): [
                (0.0, 12.34), (0.1, 15.25), (0.3, 23.83), (0.5, 36.32), (0.7, 56.19),
                (0.9, 86.39), (1.0, 106.56),
            ],
            ("adaptret", None): [
                (0.0, 12.01), (0.1, 12.67), (0.3, 16.22), (0.5, 24.50), (0.7, 40.70),
                (0.9, 74.38), (1.0, 106.56),
            ],
            # Its line goes on to the LM's level at FoSS 1, which is no walk of an automaton.
            ("retomaton", "kmeans"): [
                (0.0, 10.49), (0.35, 10.70), (0.45, 10.81), (0.53, 10.89), (0.61, 10.97),
                (0.73, 11.25), (0.83, 11.98),
            ],
            ("retomaton", "none"): [
                (0.0, 10.85), (0.29, 11.02), (0.38, 11.20), (0.45, 11.46), (0.51, 11.79),
                (0.59, 12.29), (0.64, 12.69), (0.69, 13.72), (0.76, 16.83),
            ],
        }
    ),
)  # fmt: skip

FINE_TUNED = Published(
    "table 1",
    "Law-MT: the same LM, fine-tuned on it, and a datastore made anew",
    _rows(
        {
            ("lm", None): [(1.0, 8.61)],
            ("knnlm", None): [(0.0, 7.93), (0.5, 8.25)],
            ("adaptret", None): [(0.0, 7.81), (0.5, 7.91)],
            ("retomaton", "kmeans"): [(0.0, 7.10), (0.5, 7.15)],
        }
    ),
)

ABLATION_WIKI = Published(
    "figures 5 and 9, on the validation text",
    "WikiText-103: k-means of 1 M, 500 K, 100 K and 50 K states; greedy of 21 M and 14 M",
    _rows(
        {
            ("retomaton", "kmeans-2065"): [
                (0.0, 16.15), (0.31, 16.28), (0.35, 16.31), (0.40, 16.34), (0.48, 16.40),
                (0.55, 16.46), (0.63, 16.54), (0.69, 16.62), (0.74, 16.70), (0.83, 16.94),
            ],
            ("retomaton", "kmeans-1032"): [
                (0.0, 16.10), (0.31, 16.26), (0.41, 16.32), (0.49, 16.37), (0.56, 16.42),
                (0.64, 16.49), (0.70, 16.56), (0.75, 16.63), (0.84, 16.82),
            ],
            ("retomaton", "kmeans-206"): [
                (0.0, 16.11), (0.30, 16.23), (0.35, 16.25), (0.40, 16.28), (0.48, 16.32),
                (0.56, 16.35), (0.65, 16.41), (0.70, 16.46), (0.75, 16.51), (0.84, 16.70),
            ],
            ("retomaton", "kmeans-103"): [
                (0.0, 16.11), (0.29, 16.21), (0.34, 16.23), (0.39, 16.26), (0.48, 16.30),
                (0.55, 16.33), (0.64, 16.38), (0.70, 16.43), (0.75, 16.48), (0.83, 16.69),
            ],
            ("retomaton", "greedy-14M"): [
                (0.0, 16.10), (0.27, 16.18), (0.31, 16.21), (0.37, 16.24), (0.46, 16.28),
                (0.53, 16.32), (0.61, 16.40), (0.67, 16.46), (0.71, 16.53), (0.78, 16.83),
            ],
            ("retomaton", "greedy"): [
                (0.0, 16.09), (0.26, 16.18), (0.30, 16.20), (0.36, 16.23), (0.45, 16.28),
                (0.52, 16.33), (0.59, 16.40), (0.65, 16.48), (0.69, 16.57), (0.75, 16.83),
            ],
            ("retomaton", "none"): [
                (0.0, 16.13), (0.20, 16.20), (0.24, 16.23), (0.29, 16.26), (0.37, 16.33),
                (0.43, 16.39), (0.50, 16.48), (0.55, 16.55), (0.59, 16.63), (0.68, 16.91),
            ],
        }
    ),
)  # fmt: skip

ABLATION_LAW = Published(
    "figures 6 and 10, on the validation text",
    "Law-MT: k-means of 100 K, 200 K and 400 K states",
    _rows(
        {
            ("retomaton", "kmeans-190"): [
                (0.0, 10.64), (0.40, 10.80), (0.49, 10.87), (0.57, 10.96), (0.64, 11.03),
                (0.71, 11.14), (0.75, 11.26), (0.80, 11.41), (0.84, 11.80),
            ],
            ("retomaton", "kmeans-95"): [
                (0.0, 10.61), (0.39, 10.75), (0.48, 10.81), (0.57, 10.88), (0.64, 10.96),
                (0.71, 11.09), (0.75, 11.21), (0.80, 11.33), (0.84, 11.79),
            ],
            ("retomaton", "kmeans-48"): [
                (0.0, 10.60), (0.38, 10.72), (0.48, 10.76), (0.56, 10.83), (0.63, 10.91),
                (0.70, 11.06), (0.74, 11.21), (0.79, 11.39), (0.84, 11.99),
            ],
            ("retomaton", "none"): [
                (0.0, 10.85), (0.29, 11.02), (0.38, 11.20), (0.45, 11.46), (0.51, 11.79),
                (0.59, 12.29), (0.64, 12.69), (0.69, 13.72), (0.76, 16.83),
            ],
        }
    ),
)  # fmt: skip

# Fraction of kNN-LM's wall-clock that is saved, against FoSS (figure 14).
SAVED_TIME: Mapping[str, Points] = {
    "the paper, CPU index": [
        (0.0, -0.05), (0.55, 0.48), (0.63, 0.57), (0.70, 0.65), (0.74, 0.70), (0.84, 0.81),
    ],
    "the paper, GPU index": [
        (0.0, -0.24), (0.26, -0.05), (0.36, 0.02), (0.45, 0.09), (0.53, 0.15), (0.61, 0.21),
        (0.67, 0.26), (0.81, 0.37),
    ],
    "the paper, GPU index, no clustering": [
        (0.0, -0.17), (0.29, 0.08), (0.37, 0.15), (0.45, 0.21), (0.51, 0.27), (0.64, 0.38),
        (0.77, 0.52),
    ],
}  # fmt: skip

# Share of the validation text's 5-grams (occurrences) that the training text has (figure 13).
FIVE_GRAMS = {"in-domain": 0.212, "adaptation": 0.625}

PUBLISHED: Mapping[str, Published] = {
    "in-domain": IN_DOMAIN,
    "adaptation": ADAPTATION,
    "fine-tuned": FINE_TUNED,
    "ablation-wiki": ABLATION_WIKI,
    "ablation-law": ABLATION_LAW,
}
