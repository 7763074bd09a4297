"""The analysis of an evaluated text, token by token: what the corpus has of it, what methods gain.

`analyse` is all of it. `duplicates` and `ngrams` look at tokens that are cut into `documents`;
`gains` compares methods over `groups` of tokens, with intervals by `bootstrap`.
"""
