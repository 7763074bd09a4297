"""The automaton: its columns, its distance codecs, and the kernels that walk it.

Plain functions over arrays; nothing here knows of Ray or of language models.
`retomaton_dist.automaton.automaton.Automaton` is where to begin.
"""
