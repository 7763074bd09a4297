"""Points and evaluations, made by hand."""

from retomaton_dist.report.folder import EvaluationFiles
from retomaton_dist.report.rows import read_row


def row(method, foss, perplexity, bounds=None, clustering=None, **others):
    """One point; `bounds` are those of its ratio to kNN-LM."""
    against = {"ratio": 1.0, "interval": bounds} if bounds else None
    facts = {"method": method, "clustering": clustering, "foss": foss, "searches": 0}
    return read_row({**facts, "perplexity": perplexity, "against_knnlm": against, **others}, "here")


def study(rows, store="a.store", **analysis):
    """An evaluation of a store with these points."""
    results = {"positions": 1000, "documents": 10}
    settings = {
        "model": "m",
        "store": store,
        "datastore": {"entries": 5},
        "automata": {"kmeans": {"states": 7}},
        "evaluate": {"text": ["test.en"], "calibrate_on": ["valid.en"]},
    }
    return EvaluationFiles(settings, results, analysis, {}, {}, tuple(rows))
