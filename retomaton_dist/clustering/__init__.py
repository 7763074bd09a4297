"""The algorithms that give every entry a state: plain functions over arrays, without Ray or files.

Every result is a pure function of the keys, the number of states, the seed and the settings: it
depends neither on how rows are divided among actors nor on the order in which they finish.

In the order in which a k-means goes:

arrays      names for arrays, and cutting them into blocks
draw        which entries are drawn, and the keys that centroids begin with
contenders  who may be the nearest: exact answers out of inexact products (kernels)
products    blocks of rows times slabs of centroids, and the contest between these
assign      the nearest centroid of every row, among all or in the few cells that it sees
sums        what an assignment of rows adds up to, in any order
update      centroids go to the means of their members; those of empty states to others' halves
lloyd       iterations, when they stop, and all of them over rows in memory
samples     which rows an iteration sees: few at first, all of them in the end
recipe      every setting with `auto` found out: when there are cells, how many, how much work
cell_order  rows in the order of their nearest cells, and how many states each is split into

greedy      the other way to states: neighbours of equal value are merged
statistics  what a clustering of either kind looks like
"""
