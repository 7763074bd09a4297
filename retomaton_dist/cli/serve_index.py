"""`retomaton serve-index`: search actors that several jobs share."""

import argparse
import threading
from typing import TYPE_CHECKING

from retomaton_dist.cli.command import Command, Invocation
from retomaton_dist.cli.store_argument import add_store, store_of
from retomaton_dist.errors import ClusterError

if TYPE_CHECKING:
    from retomaton_dist.runtime.search_service import SearchService


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store and what else can be done with a running service."""
    add_store(parser)
    parser.add_argument(
        "--status",
        action="store_true",
        help="show the running service: shards, resident memory, queries served, latency",
    )
    parser.add_argument("--stop", action="store_true", help="end the running service")


def run(call: Invocation) -> int:
    """Start, show or end a service; without a cluster stay until interrupted."""
    settings, workers = (call.group(name) for name in COMMAND.groups)
    store = store_of(call)
    from retomaton_dist.runtime.search_service import SearchService, service_crew
    from retomaton_dist.runtime.session import Session
    from retomaton_dist.search.layout import IndexFiles
    from retomaton_dist.search.parameters import parse
    from retomaton_dist.storage.store import Store

    opened = IndexFiles.open(Store.open(store), settings.name)
    with Session(workers) as session:
        alone = session.starts_ray
        if alone and (call.get("status") or call.get("stop")):
            raise ClusterError("which cluster is the service on? --address auto, or HOST:PORT")
        session.join()
        if call.get("status"):
            print(as_text(SearchService.connect(opened)))
        elif call.get("stop"):
            SearchService.connect(opened).stop()
        else:
            crew = service_crew(opened, settings, workers)
            service = SearchService.serve(opened, parse(settings.parameters or ""), crew)
            print(as_text(service), flush=True)
            if alone:
                _stay(session.joined_address)
    return 0


def as_text(service: "SearchService") -> str:
    """The service for people: a line per shard."""
    lines = [service.name]
    for shard in service.status():
        times = ", ".join(f"{name} {value:g}" for name, value in shard["milliseconds"].items())
        lines.append(
            f"  shard {shard['shard']}: {shard['entries']:,} entries, file "
            f"{shard['file_bytes'] / 1e6:,.1f} MB, resident {shard['resident_bytes'] / 1e6:,.1f} "
            f"MB, {shard['queries']:,} queries in {shard['calls']:,} calls and "
            f"{shard['searches']:,} searches, ms {times}"
        )
    return "\n".join(lines)


def _stay(address: str) -> None:
    try:
        print(f"serving at --address {address} until interrupted", flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        print("stopped")


COMMAND = Command(
    name="serve-index",
    summary="Serve an index with one actor per shard, for all jobs of a cluster to share.",
    groups=("serve", "workers"),
    arguments=add_arguments,
    run=run,
    examples="""
        on a cluster; it stays when this command ends:
          retomaton serve-index law.store --address auto
          retomaton serve-index law.store --address auto --status
          retomaton serve-index law.store --address auto --stop

        on this machine, until Ctrl-C:
          retomaton serve-index law.store

        then, in Python:
          rd.open("law.store").searcher("default", served=True).search(queries, k=1024)
    """,
)
