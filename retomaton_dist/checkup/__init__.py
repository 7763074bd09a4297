"""What machines have, whether it fits together, and whether each path computes what it should.

paths      what a self-test is, and how its results are compared
arrays, models   the self-tests: of states, neighbours, searches and codes; of models and training
nodes      all of it, and what a machine has (runtime/node_facts.py), here or on every node
findings   what is wrong or worth a note
page       the findings for people
"""
