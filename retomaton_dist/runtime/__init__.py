"""The one layer that knows Ray: clusters, actors that work off units, threads, progress."""

import os

# Ray prints news of dead workers to stdout, among results, whatever it is told about logs; the
# pool handles and reports such deaths itself. Read when Ray is imported, hence here.
os.environ.setdefault(
    "RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed|killed due to memory pressure"
)
