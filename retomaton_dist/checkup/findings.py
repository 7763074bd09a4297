"""What is wrong with machines that are to work together, and what is worth a note."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retomaton_dist.checkup.nodes import NodeCheckup
from retomaton_dist.runtime.node_facts import access_problems, version_problem

LATE_SECONDS = 5.0
LEAST_MEMORY = 2 << 30
LEAST_DISK = 1 << 30
LEAST_OPEN_FILES = 1024
USUAL_PAGE = 4096


@dataclass(frozen=True)
class CheckupFinding:
    """Something about a node. A problem makes the check-up fail, a note does not."""

    node: str
    message: str
    is_problem: bool = True


def find(checkups: Sequence[NodeCheckup]) -> list[CheckupFinding]:
    """All that is wrong or worth a note, node by node."""
    usual = _usual_versions(checkups)
    findings: list[CheckupFinding] = []
    for checkup in checkups:
        name, problems = checkup.name, _problems(checkup, usual)
        findings += [CheckupFinding(name, message) for message in problems]
        findings += [CheckupFinding(name, note, is_problem=False) for note in _notes(checkup)]
    return findings


def _problems(checkup: NodeCheckup, usual: dict[str, str]) -> Iterator[str]:
    if checkup.problem:
        yield checkup.problem
    if facts := checkup.facts:
        if problem := version_problem(facts.versions, usual):
            yield problem
        if not facts.faiss:
            yield "FAISS is not installed; `pip install 'retomaton_dist[cpu]'`, or [gpu] instead"
        if len(facts.faiss) > 1:
            both = " and ".join(facts.faiss)
            yield f"{both} overwrite each other: uninstall all, then install one"
        yield from access_problems(facts)
    if (gpu := checkup.gpu) and (seen := len(gpu.names)) < checkup.expected_gpus:
        build = f"torch for CUDA {gpu.cuda}" if gpu.cuda else "torch without CUDA"
        yield f"{build} sees {seen} GPUs, Ray {checkup.expected_gpus}: driver, or torch's build?"
    for outcome in checkup.all_outcomes:
        where = f"{outcome.path} on {outcome.device}"
        if outcome.problem:
            yield f"{where} failed: {outcome.problem}"
        elif not outcome.passed:
            allowed = f"{outcome.tolerance:g} is allowed"
            yield f"{where} is wrong: error {outcome.error:.1e}, {allowed}"


def _usual_versions(checkups: Sequence[NodeCheckup]) -> dict[str, str]:
    """For everything installed, the version that most nodes have."""
    known = [checkup.facts.versions for checkup in checkups if checkup.facts]
    names = known[0] if known else {}
    return {name: Counter(each[name] for each in known).most_common(1)[0][0] for name in names}


def _notes(checkup: NodeCheckup) -> Iterator[str]:
    facts = checkup.facts
    if facts is None:
        return
    if abs(checkup.clock_offset) > LATE_SECONDS:
        differs = f"differs by {checkup.clock_offset:+.0f} s"
        yield f"its clock {differs}: times in logs and locks will mislead"
    if facts.memory_free < LEAST_MEMORY:
        yield f"only {facts.memory_free / 1e9:.1f} GB of memory are free"
    if facts.folder and not facts.folder.problem and facts.folder.free < LEAST_DISK:
        yield f"only {facts.folder.free / 1e9:.1f} GB of disk are free where the store is"
    if facts.open_files < LEAST_OPEN_FILES:
        yield f"only {facts.open_files} files may be open at once: `ulimit -n 65536` before Ray"
    if facts.page_size > USUAL_PAGE:
        yield f"memory pages have {facts.page_size} bytes: small stores need --chunk-entries 16384"
    if checkup.gpu and checkup.gpu.names and not checkup.gpu.faiss_gpus:
        yield "FAISS is built without GPUs: searches run on the CPU; [gpu] instead of [cpu] helps"
