"""Distances from codes: the codecs `fp16` and `pq`, and how keys are encoded for the latter.

`retomaton_dist.codec.codec.Codec` is where to begin. Nothing here knows of states or of walks.
"""
