"""Runs the commands that look after stores, machines and services."""

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from retomaton_dist.cli.command import Invocation
from retomaton_dist.cli.commands import PRUNED
from retomaton_dist.errors import BadInput, ClusterError, DamagedStore
from retomaton_dist.settings.choices import CODECS
from retomaton_dist.settings.stages import STAGES, command_for

if TYPE_CHECKING:
    from retomaton_dist.runtime.search_service import SearchService
    from retomaton_dist.storage.store import Store


def inspect(call: Invocation) -> int:
    """Print what the manifest says; draw the sizes of states if asked."""
    from retomaton_dist.api.describe import as_text, describe
    from retomaton_dist.storage.store import Store

    store = Store.open(call.store)
    facts = describe(store)
    print(json.dumps(facts, indent=2) if call.get("json") else as_text(facts))
    if call.get("histograms"):
        _draw_histograms(store, Path(call.get("histograms")))
    return 0


def _draw_histograms(store: "Store", folder: Path) -> None:
    """Write a PNG per clustering that is done, and say where."""
    from retomaton_dist.clustering.statistics import tally_of
    from retomaton_dist.report.figures import plot_state_sizes

    for name in store.finished("cluster"):
        states, facts = store.states(name), store.stage(f"cluster/{name}").facts
        tally = {1: states.count} if states.algorithm == "none" else tally_of(states.sizes)
        path = folder / f"{name}.png"
        plot_state_sizes(tally, facts["median"], f"{name}: {states.count:,} states", path)
        print(path, file=sys.stderr)


def verify_store(call: Invocation) -> int:
    """Check everything; exit code 1 if anything is damaged."""
    from retomaton_dist.runtime.progress import showing
    from retomaton_dist.storage.store import Store
    from retomaton_dist.storage.verify import repair, total_bytes, verify

    path = call.store
    try:
        store = Store.open(path)
    except DamagedStore as error:
        print(f"damaged: {error}")
        return 1
    with showing(call.get("progress"), "verify", total_bytes(store), "bytes") as progress:
        checked = verify(store, progress.advance)
    for finding in checked.findings:
        print(f"damaged: {store.path / finding.path}: {finding.problem}")
    if not checked.findings:
        # Only now: files that a damaged record would name look as if they belonged to nobody.
        for name in checked.leftovers:
            print(f"not part of the store: {store.path / name}")
        print(f"sound: {checked.files:,} files, {checked.bytes:,} bytes")
        return 0
    stages = sorted({command_for(finding.stage) for finding in checked.findings})
    again = " and ".join(f"`retomaton {stage} ...`" for stage in stages)
    if call.get("repair"):
        repair(path, checked)
        print(f"the damaged parts are forgotten; run {again} with the old settings again")
    else:
        print(f"to do only these anew: `retomaton verify {path} --repair`, then {again} again")
    return 1


def prune(call: Invocation) -> int:
    """Delete what was named and say how many bytes that sets free."""
    named = {kind: call.get(kind) for kind in PRUNED if call.get(kind) is not None}
    if not call.get("keys") and not named:
        flags = ", ".join(f"--{kind} NAME" for kind in PRUNED)
        raise BadInput(f"nothing was named to be deleted; say --keys, {flags}")
    from retomaton_dist.calibration.calibration import CALIBRATIONS
    from retomaton_dist.storage.prune import NamedPart, prune_evaluation, prune_keys, prune_part
    from retomaton_dist.storage.store import Store, writing

    parts = {
        stage.prune[0]: NamedPart(stage.prune[0], stage.name, stage.folder)
        for stage in STAGES
        if stage.named
    }
    parts["calibration"] = NamedPart("calibration", "calibrate", CALIBRATIONS)
    Store.open(call.store)
    with writing(call.store) as writer:
        begun = list(writer.manifest.stages)

        def turn(item: tuple[str, str]) -> int:
            stage = f"{parts[item[0]].stage}/{item[1]}" if item[0] in parts else ""
            return begun.index(stage) if stage in begun else len(begun)

        # The latest first: what is made from others was begun after them.
        for kind, name in sorted(named.items(), key=turn, reverse=True):
            if kind == "evaluation":
                freed = prune_evaluation(Path(writer.path), name)
            else:
                freed = prune_part(writer, parts[kind], name)
            print(f"{kind} {name!r} deleted: {freed:,} bytes set free")
        if call.get("keys"):
            without_keys = [name for name in CODECS if CODECS[name].encodes]
            print(f"keys deleted: {prune_keys(writer, without_keys):,} bytes set free")
    return 0


def check_machines(call: Invocation) -> int:
    """Look, compute, and tell; exit code 1 if there is a problem."""
    from retomaton_dist.api.doctor import doctor
    from retomaton_dist.checkup.page import as_text

    address = call.get("address") or os.environ.get("RAY_ADDRESS") or ""
    checkups, findings = doctor(call.get("store"), address=address)
    print(as_text(checkups, findings))
    return int(any(finding.is_problem for finding in findings))


def serve_index(call: Invocation) -> int:
    """Start, show or end a service; without a cluster stay until interrupted."""
    from retomaton_dist.runtime.search_service import SearchService, service_crew
    from retomaton_dist.runtime.session import Session
    from retomaton_dist.search.layout import IndexFiles
    from retomaton_dist.search.parameters import parse
    from retomaton_dist.storage.store import Store

    settings, workers = call.settings.values()
    opened = IndexFiles.open(Store.open(call.store), settings.name)
    with Session(workers) as session:
        alone = session.starts_ray
        if alone and (call.get("status") or call.get("stop")):
            raise ClusterError("which cluster is the service on? --address auto, or HOST:PORT")
        session.join()
        if call.get("status"):
            print(_service_as_text(SearchService.connect(opened)))
        elif call.get("stop"):
            SearchService.connect(opened).stop()
        else:
            crew = service_crew(opened, settings, workers)
            service = SearchService.serve(opened, parse(settings.parameters or ""), crew)
            print(_service_as_text(service), flush=True)
            if alone:
                _stay(session.joined_address)
    return 0


def _service_as_text(service: "SearchService") -> str:
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
