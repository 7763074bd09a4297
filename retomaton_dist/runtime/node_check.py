"""Refusing, before work begins, nodes that cannot do it: each by its name, all at once."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from retomaton_dist.errors import ClusterError
from retomaton_dist.lm.identity import ModelSpec
from retomaton_dist.runtime.cluster import Crew
from retomaton_dist.runtime.node_calls import alive_nodes, call_on_nodes
from retomaton_dist.runtime.node_facts import (
    NodeFacts,
    NodeQuestions,
    access_problems,
    gather_facts,
    version_problem,
)
from retomaton_dist.storage.manifest import MANIFEST_NAME
from retomaton_dist.storage.probe import probing

# A node has as long as a unit, and this long at least: libraries must be loaded there first.
LEAST_SECONDS = 120.0


def check_nodes(
    crew: Crew, writes: Path, reads: Sequence[Path], model: ModelSpec | None, seconds: float
) -> None:
    """Refuse nodes with other packages or another model, or that see other files.

    Workers write into the folder `writes` and read the stores `reads`. Of the nodes, those count
    that have room for a worker and are still alive at the end.
    """
    with probing(writes) as probe:
        questions = NodeQuestions(probe, tuple(store / MANIFEST_NAME for store in reads), model)
        # Twice, since somebody may just be adding a stage to a store that is read.
        before = gather_facts(NodeQuestions(reads=questions.reads))
        ask = partial(gather_facts, questions)
        answers = call_on_nodes(alive_nodes(crew), ask, max(seconds, LEAST_SECONDS))
        after = gather_facts(NodeQuestions(reads=questions.reads))
    alive = {node.id for node in alive_nodes()}
    problems = [
        f"{answer.node.name}: {problem}"
        for answer in answers
        if answer.node.id in alive
        for problem in _problems(answer.answer, answer.problem, before, after)
    ]
    if problems:
        listed = "; ".join(problems)
        raise ClusterError(f"{listed}; mend that, or take such nodes out of the cluster")


def _problems(
    there: NodeFacts | None, silence: str, before: NodeFacts, after: NodeFacts
) -> Iterator[str]:
    if there is None:
        yield silence
        return
    if problem := version_problem(there.versions, before.versions):
        yield problem
    yield from access_problems(there)
    for path, digest in there.reads.items():
        if digest not in (before.reads[path], after.reads[path]):
            yield f"{path} is another file there, or none"
