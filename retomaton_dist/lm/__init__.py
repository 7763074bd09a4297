"""The language model: where it comes from, its tokenizer, windows, keys, and how to train one."""
