"""What a walk did to a text: search-free runs, captured sequences, and overlap with the corpus.

`analyse` is all of it; each of `runs`, `ngrams`, `sequences` and `passage` looks at tokens that are
cut into `documents`.
"""
