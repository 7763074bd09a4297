"""The algorithms that give every entry a state: plain functions over arrays, without Ray or files.

Every result is a pure function of the keys, the number of states, the seed and the settings: it
depends neither on how rows are divided among actors nor on the order in which they finish.
"""
