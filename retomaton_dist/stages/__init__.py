"""The stages of a build, one after the other: tokenize, extract, cluster, index, codec, compile.

They talk only through the store, and are all written on `runner`; `build` runs them in order.
"""
