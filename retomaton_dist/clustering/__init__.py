"""The algorithms that give every entry a state: plain functions over arrays, without Ray or files.

Every result is a pure function of the keys, the number of states, the seed and the settings: it
depends neither on how rows are divided among actors nor on the order in which they finish.

In the order in which a k-means goes:

arrays      names for arrays, and cutting them into blocks
draw        which entries are drawn, and the keys that centroids begin with
contenders  who may be the nearest: exact answers out of inexact products (kernels)
products    blocks of rows times slabs of centroids, and the contest between these
assign      the nearest centroid of every row, among all or in its nearest cells
sums        means and totals that do not depend on the order of addition
shares      what a k-means asks of whoever holds the rows, and what they answer with
lloyd       iterations, and new centroids for states that went empty
in_memory   shares that lie in one process: the splitting of a cell
two_level   cells first, then states inside them, for many states

greedy      the other way to states: neighbours of equal value are merged
statistics  what a clustering of either kind looks like
"""
