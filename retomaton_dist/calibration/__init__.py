"""A calibration: how far each method trusts the automaton, and which thresholds save how much.

One format and one reader: `retomaton calibrate` keeps it in the store, `retomaton eval` beside its
results; `eval`, `score` and `generate` use it alike.
"""
