"""What is said of a text's tokens: what it shares with others, what methods make better and worse.

`analyse` is all of it. `duplicates`, `ngrams`, `runs` and `passage` look at tokens that are cut
into `documents`; `gains` compares methods over `groups` of tokens, with intervals by
`resampling`.
"""
