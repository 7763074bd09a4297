"""The JSON files of an evaluation that never took place."""

from retomaton_dist.storage import canonical

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
        "searches": round((1 - foss) * positions),
        "positions": positions,
        "perplexity": perplexity,
        "interval": [0.97 * perplexity, 1.03 * perplexity],
        "perplexity_per_word": 2 * perplexity,
        "lambda": 0.5,
        "temperature": 8.0,
        "pointer_weight": None,
        "baseline": baseline,
        "against": {"ratio": ratio, "interval": [ratio - 0.02, ratio + 0.02]},
        "without_duplicates": {
            "perplexity": perplexity + 1,
            "against": {"ratio": ratio + 0.01, "interval": None},
        },
        "worse_than_lm": {"documents": 2, "worst": "c.txt", "ratio": 1.25},
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


POINT = {"method": "retomaton", "clustering": "kmeans", "tau": 8, "sigma": None, "foss": 0.4}
SEARCHED = {"method": "knnlm", "clustering": None, "tau": None, "sigma": None, "foss": 0.0}


def group(tokens, ratio, interval=True):
    """Tokens whose perplexity changed by this ratio."""
    return {
        "tokens": tokens,
        "baseline": 80.0,
        "perplexity": 80 * ratio,
        "ratio": ratio,
        "interval": [ratio - 0.05, ratio + 0.05] if interval else None,
        "better": 0.5,
        "worse": 0.25,
    }


def gains():
    """What one method makes better and worse; one group has no interval."""
    groups = [{"name": "0", **group(10, 1.25, False)}, {"name": "1 or more", **group(990, 0.8)}]
    sides = [
        {"share": share, "median": 1.2, "factor": factor, "by_at_least": [[2.0, 0.1], [10.0, 0.03]]}
        for share, factor in ((0.5, 1.6), (0.25, 1.1))
    ]
    return {
        **POINT,
        "against": SEARCHED,
        "all": group(1000, 0.81),
        "better": sides[0],
        "worse": sides[1],
        "groupings": [{"title": "how often", "groups": groups}],
    }


def reliability(point):
    """What was said and what came."""
    bins = [{"said": p, "came": 0.8 * p, "tokens": 500} for p in (0.2, 0.7)]
    return {**point, "bins": bins, "said": 0.45, "came": 0.36, "error": 0.09}


def recalibrated(point, ratio):
    """Constants fitted anew."""
    return {
        **point,
        "lambda": [0.61, 0.69],
        "temperatures": [[8.0, 0.25], [16.0, 0.75]],
        "perplexity": 70.0,
        "over_calibration": [69.5, 70.5],
        "over_both": [66.0, 74.0],
        "baseline": ratio and "knnlm",
        "ratio_over_calibration": ratio,
        "ratio_over_both": ratio,
    }


def retrained(point, ratios):
    """Networks trained anew."""
    facts = {
        "perplexity": 70.0,
        "perplexities": [69.0, 71.5],
        "baseline": ratios and "knnlm+lambda",
    }
    return {**point, **facts, "ratios": ratios}


def ladders():
    """Both ladders; learned mixing ran beside the first one's last two lines."""
    cells = [(1100.0, None), (900.0, 900 / 1100), (100.0, 100 / 900), (80.0, 0.8), (76.0, 0.95)]
    made = []
    for title, found in (("With every search made", "+ kNN"), ("Without any search", "+ suffix")):
        names = ("LM alone", "+ cache", "+ n-grams", found, "+ automaton")
        lines = [
            {"name": name, "online": line(*cell), "learned": None}
            for name, cell in zip(names, cells, strict=True)
        ]
        made.append({"title": title, "lines": lines})
    first = made[0]["lines"]
    first[3]["learned"] = line(72.0, None, "knnlm+ngram+cache+lambda")
    first[4]["learned"] = line(66.24, 0.92, "retomaton+ngram+cache+lambda")
    return made


def line(perplexity, ratio, method="retomaton+ngram+cache"):
    """What a line of a ladder shows; the interval is 1 % to both sides."""
    change = ratio and {"ratio": ratio, "interval": [ratio - 0.01, ratio + 0.01]}
    new = {"perplexity": perplexity + 1, "against": ratio and {"ratio": ratio, "interval": None}}
    return {
        "method": method,
        "foss": 0.0,
        "perplexity": perplexity,
        "interval": None,
        "change": change,
        "without_duplicates": new,
        "worse_than_lm": {"documents": 2, "worst": "c.txt", "ratio": 1.25},
    }


def shared():
    """The file of duplicates."""
    counts = {"documents": 12, "tokens": 1000, "same": [3, 4], "same_tokens": 25}
    return {"pairs": [{"text": "text", "in": "corpus", **counts, "near": [7], "near_tokens": 50}]}


def files(live=False, text="a note"):
    """All files."""
    mode = "live" if live else "sweep"
    return {
        "results": {
            "rows": rows(live),
            "ladders": [],
            "mode": mode,
            "positions": 1000,
            "words": 700,
            "documents": 40,
            "seconds": seconds("retomaton", 0),
            "reliability": [reliability(SEARCHED), reliability(POINT)],
            "recalibrated": [recalibrated(SEARCHED, None), recalibrated(POINT, [0.85, 0.9])],
            "retrained": [retrained(SEARCHED, None), retrained(POINT, [0.85, 0.9])],
            "caps": {"kmeans@8.states": 250, "kmeans@8.empty": 0, "kmeans@inf.states": 500},
        },
        "analysis": {
            "gains": [gains()],
            "runs": {
                "walk": "kmeans@8",
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
        },
        "duplicates": shared(),
        "calibration": {
            "methods": {
                "knnlm": {"lambda": 0.4375, "temperature": 8.0},
                "adaptret": {
                    "positions": 1500,
                    "held_out": 170,
                    "epochs": 4,
                    "seconds": 6.5,
                    "thresholds": {"0.0": -0.5, "0.1": -1.25},
                },
                "retomaton+suffix": {
                    "kmeans": {"2": {"lambda": 0.5, "temperature": 4.0, "pointer_weight": 1.0}}
                },
            },
        },
        "settings": {
            "command": ["retomaton", "eval", "my.store", "--text", "a text"],
            "k": 1024,
            "versions": {"numpy": "2.9.9", "note": text},
            "store": "/stores/my.store",
            "model": "gpt2",
            "sources": ["/text/test.en", "/text/more.en"],
            "corpus": {"sources": 1, "first_source": "/text/train.en"},
            "size": {"entries": 81378, "calibration_tokens": 6026},
            "inputs": {"datastore": "0123abcd"},
            "automata": {"kmeans": {"states": 31415, "codec": "pq64"}},
        },
    }


def small_files():
    """Files of an evaluation of the LM alone, which makes one figure."""
    content = files()
    results = content["results"] | {"rows": rows()[:1], "seconds": None, "caps": {}}
    results |= {"reliability": [], "recalibrated": [], "retrained": []}
    return content | {"results": results, "analysis": {}, "calibration": {}, "duplicates": {}}


def write(folder, made):
    """Write the files and return the folder."""
    folder.mkdir(exist_ok=True)
    for name, content in made.items():
        canonical.write(folder / f"{name}.json", content)
    return folder
