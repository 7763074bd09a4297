"""A check-up for people: a part per node, then what was found."""

import time
from collections.abc import Iterator, Sequence

from retomaton_dist.checkup.findings import CheckupFinding
from retomaton_dist.checkup.nodes import RAY, GpuFacts, NodeCheckup
from retomaton_dist.checkup.paths import CPU, PathOutcome
from retomaton_dist.runtime.node_facts import NodeFacts

GB = 1e9


def as_text(checkups: Sequence[NodeCheckup], findings: Sequence[CheckupFinding]) -> str:
    """Everything that was seen, and at the end what it means."""
    lines: list[str] = []
    for checkup in checkups:
        lines += [checkup.name, *(f"  {line}" for line in _node(checkup)), ""]
    for finding in findings:
        kind = "PROBLEM" if finding.is_problem else "note"
        lines.append(f"{kind}: {finding.node}: {finding.message}")
    problems, machines = sum(finding.is_problem for finding in findings), len(checkups)
    outcome = f", {_counted(problems, 'problem')}" if problems else ": all is well"
    lines.append(_counted(machines, "machine") + outcome)
    return "\n".join(lines)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _node(checkup: NodeCheckup) -> Iterator[str]:
    if checkup.facts:
        yield from _facts(checkup.facts)
        clock = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(checkup.facts.clock))
        # Below a second it is the answer's way that is measured, not the clock.
        offset = checkup.clock_offset
        differs = f"{offset:+.0f} s from" if abs(offset) >= 1 else "the same as"
        yield f"{'clock':<12}{clock}, {differs} whoever asked"
    if checkup.gpu:
        yield from _gpu(checkup.gpu)
    for outcome in checkup.all_outcomes:
        status = "ok" if outcome.passed else "FAILED"
        where = f"{outcome.path} on {outcome.device}"
        yield f"{status:<8}{where:<36}{_result(outcome)}, {outcome.seconds:.1f} s"


def _facts(facts: NodeFacts) -> Iterator[str]:
    yield f"{'system':<12}{facts.system}"
    yield f"{'python':<12}{facts.python}, retomaton_dist sources {facts.code}"
    installed = [f"{name} {version}" for name, version in facts.packages.items()]
    installed.append(", ".join(facts.faiss) or "no faiss")
    for first in range(0, len(installed), 4):
        yield f"{'packages' if not first else '':<12}{', '.join(installed[first : first + 4])}"
    yield f"{'CPUs':<12}{facts.cpus}, memory pages of {facts.page_size:,} bytes"
    shared = facts.shared_memory_free
    beside = f", /dev/shm {shared / GB:.1f} GB free" if shared is not None else ""
    free = f"{facts.memory_free / GB:.1f} of {facts.memory / GB:.1f} GB free"
    yield f"{'memory':<12}{free}{beside}; {facts.open_files:,} open files"
    if facts.folder:
        seen = (
            facts.folder.problem
            or f"seen, writable, locks hold, {facts.folder.free / GB:.1f} GB free"
        )
        yield f"{'store':<12}{seen}"


def _gpu(gpu: GpuFacts) -> Iterator[str]:
    build = f"torch for CUDA {gpu.cuda}" if gpu.cuda else "torch without CUDA"
    seen = [f"{name}, {size / GB:.1f} GB" for name, size in zip(gpu.names, gpu.memory, strict=True)]
    yield f"{'GPUs':<12}{'; '.join(seen) or 'none'} ({build}, FAISS sees {gpu.faiss_gpus})"


def _result(outcome: PathOutcome) -> str:
    if outcome.problem:
        return outcome.problem
    if outcome.device == RAY:
        return "answers"
    against = "a plain computation" if outcome.device == CPU else "the CPU"
    if not outcome.tolerance:
        return f"{'the same as' if outcome.passed else 'not the same as'} {against}"
    return f"error {outcome.error:.1e} against {against}, {outcome.tolerance:g} is allowed"
