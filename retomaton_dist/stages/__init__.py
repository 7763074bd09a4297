"""The stages of a build, in order: tokenize, extract. They talk only through the store."""
