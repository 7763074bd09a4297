"""The search index: sharded FAISS over all keys, searched in this process or by Ray actors."""
