"""What machines have, whether it fits together, and whether each path computes what it should.

facts      what this machine has
paths      what a self-test is, and how its results are compared
arrays, models   the self-tests: of states, neighbours, searches and codes; of models and training
nodes      all of it on this machine, or on every node of a cluster
findings   what is wrong or worth a note
page       the findings for people
"""
