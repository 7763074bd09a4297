"""The one layer that knows Ray: clusters, actors that work off units, threads, progress."""
