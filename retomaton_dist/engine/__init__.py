"""Where a text meets the model and the automaton: the one engine of `eval`, `score`, `generate`.

`text_reader` and `lm_output` are what the LM says at positions, `walker` walks rows of text by any
number of rules, `retrieval` is what they search and look up in, `mixture` turns both into
probabilities, `block_scores` does all of it for a block of documents.
"""
