"""The stages of a build: tokenize, extract, cluster, index, compile.

They talk only through the store.
"""
