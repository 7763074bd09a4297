"""The stages of a build: tokenize, extract, cluster, index, compile; they talk only through the store."""
