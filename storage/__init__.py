"""What lies on disk: manifest, Zarr arrays, Arrow columns, memory maps, locks and integrity.

This layer knows nothing of models, Ray or FAISS. `storage.store.Store` is where to begin.
"""
