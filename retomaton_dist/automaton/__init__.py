"""The automaton, and the kernels that walk it: plain functions over arrays.

`automaton` holds it, `lanes` walks many documents through it. One step, from top to bottom, is
`follow` (F, P, S', n), `fill` (W), `join` (candidates, S) and `sums` (probabilities);
`arrays` says what they work on, `tables` are their small tools, `layout` is how slots are ordered.
`suffixes` finds entries by the tokens before them, which `contexts` puts in order.
Nothing here knows of Ray or of language models.
"""
