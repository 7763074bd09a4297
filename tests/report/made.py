"""The JSON files of an evaluation that never took place."""

from storage import canonical

CURVES = {
    ("knnlm", None): [(0.0, 80.0), (0.5, 200.0), (0.9, 700.0)],
    ("knnlm+wide", None): [(0.0, 76.0), (0.5, 190.0), (0.9, 690.0)],
    ("knnlm+lambda", None): [(0.0, 72.0), (0.5, 180.0), (0.9, 680.0)],
    ("adaptret", None): [(0.0, 79.0), (0.5, 150.0), (0.9, 650.0)],
    ("retomaton", "kmeans"): [(0.0, 70.0), (0.4, 72.0), (0.8, 84.0)],
    ("retomaton", "greedy"): [(0.0, 71.0), (0.3, 74.0), (0.6, 81.0)],
    ("retomaton", "none"): [(0.0, 69.0), (0.3, 78.0), (0.55, 88.0)],
    ("retomaton+pw", "kmeans"): [(0.0, 68.0), (0.4, 70.0), (0.8, 81.0)],
    ("retomaton+lambda", "kmeans"): [(0.0, 65.0), (0.4, 67.0), (0.8, 77.0)],
}
BASELINES = {"retomaton": "knnlm+wide", "retomaton+pw": "knnlm+wide"}
BASELINES |= {"retomaton+lambda": "knnlm+lambda"}
HOSTILE = "<script>alert(1)</script> `a` ``b`` | *c* _d_ \x1b[0m \u202e\r\n\tend"


def row(method, clustering, foss, perplexity, **others):
    """A point; intervals are 3 % to both sides."""
    positions = 1000
    baseline = BASELINES.get(method, "knnlm")
    ratio = perplexity / CURVES[baseline, None][0][1]
    return {
        "method": method,
        "clustering": clustering,
        "tau": None,
        "walk": None,
        "foss": foss,
        "reference_foss": None,
        "searches": round((1 - foss) * positions),
        "positions": positions,
        "perplexity": perplexity,
        "interval": [0.97 * perplexity, 1.03 * perplexity],
        "perplexity_per_word": 2 * perplexity,
        "interval_per_word": None,
        "lambda": 0.5,
        "temperature": 8.0,
        "pointer_weight": None,
        "baseline": baseline,
        "against": {"ratio": ratio, "interval": [ratio - 0.02, ratio + 0.02]},
        "against_knnlm": {"ratio": perplexity / 80, "interval": None},
        "seconds": None,
        **others,
    }


def rows(live=False, alone=1100.0):
    """One row for the LM, then the curves above."""
    made = [row("lm", None, 1.0, alone, seconds=seconds("lm", 1.0) if live else None)]
    for (method, clustering), points in CURVES.items():
        taus = ["inf", 8, 1] if clustering else [None] * len(points)
        for tau, (foss, perplexity) in zip(taus, points, strict=True):
            time = seconds(method, foss) if live else None
            made.append(row(method, clustering, foss, perplexity, tau=tau, seconds=time))
    return made


def seconds(method, foss):
    search = 0.0 if method == "lm" else 8 * (1 - foss)
    walk = 1.0 if method.startswith("retomaton") else 0.0
    return {"lm": 2.0, "search": search, "walk": walk, "rest": 0.5, "total": 2.5 + search + walk}


def stretch(text):
    place = {"document_offset": 7, "byte_in_document": 1234, "before": "so ", "after": " on"}
    return {"document": "doc|1", "file": "/text/a_b.txt", "text": text, **place}


def files(live=False, text="a sequence"):
    """All four files."""
    mode = "live" if live else "sweep"
    sequence = {"text": text, "count": 3, "probability": 0.1, "probability_per_token": 0.5}
    return {
        "results": {
            "rows": rows(live),
            "mode": mode,
            "positions": 1000,
            "words": 700,
            "documents": 12,
            "seconds": seconds("retomaton", 0),
            "caps": {"kmeans@8.states": 250, "kmeans@8.empty": 0, "kmeans@inf.states": 500},
        },
        "analysis": {
            "walk": "kmeans@8",
            "runs": {
                "lengths": [[1, 30], [2, 40], [3, 20], [25, 2]],
                "runs": 92,
                "tokens": 220,
                "share_longer_than_1": 0.8636,
                "longest": 25,
                "foss": 0.58,
            },
            "overlap": [
                {
                    "n": n,
                    "types": 100,
                    "types_seen": 100 // n,
                    "occurrences": 300,
                    "occurrences_seen": 290 // n,
                }
                for n in range(1, 11)
            ],
            "sequences": {"10": [], "3": [sequence], "6": [sequence]},
            "passage": {
                "tokens": 24,
                "evaluated": stretch(text),
                "source": {**stretch(text), "tokens": 20, "entry": 4321, "begins_at_token": 2},
            },
        },
        "calibration": {
            "methods": {
                "knnlm": {"lambda": 0.4375, "temperature": 8.0},
                "adaptret": {"positions": 1500, "held_out": 170, "epochs": 4, "seconds": 6.5},
            },
        },
        "settings": {
            "command": ["retomaton", "eval", "my.store", "--text", "a text"],
            "k": 1024,
            "versions": {"numpy": "2.9.9", "note": text},
            "store": {"digest": "0123abcd"},
            "automata": {"kmeans": {"states": 31415, "codec": "pq64"}},
        },
    }


def small_files():
    """Files of an evaluation of the LM alone, which makes one figure."""
    content = files()
    results = content["results"] | {"rows": rows()[:1], "seconds": None, "caps": {}}
    return content | {"results": results, "analysis": {}, "calibration": {}}


def write(folder, made):
    """Write the files and return the folder."""
    folder.mkdir(exist_ok=True)
    for name, content in made.items():
        canonical.write(folder / f"{name}.json", content)
    return folder
