"""`retomaton plan`: what a build of any size would take on any machines."""

from retomaton_dist.cli.command import Command, Invocation


def run(call: Invocation) -> int:
    """Say what every stage would take; nothing is read but the model's config."""
    settings = call.group("plan")
    from retomaton_dist.dry_run.plan import make_plan

    print(make_plan(settings, call.file).as_text())
    return 0


COMMAND = Command(
    name="plan",
    summary="Say what a build of so many tokens would take on such machines: disk, memory, core- "
    "and GPU-hours, network and time of every stage. No corpus is needed, and nothing is written.",
    groups=("plan",),
    run=run,
    examples="""
        this machine, keys as wide as the model's:
          retomaton plan --tokens 1e8 --model gpt2

        a cluster, and keys of any width:
          retomaton plan --tokens 1e9 --model gpt2 --nodes 8 --cores 32 --gpus 4
          retomaton plan --tokens 1e12 --dimension 1024 --parameters 1e9 --nodes 64 --cores 64

        settings of stages come from the file's tables, [cluster], [index], [compile],
        [suffix] and [ngram]:
          retomaton plan --tokens 1e9 --model gpt2 --config build.toml

        with rates that were measured there:
          python -m tests.benchmarks.scale --entries 1e6 --rates rates.json
          retomaton plan --tokens 1e9 --model gpt2 --rates rates.json

        a corpus that is there is better asked itself: retomaton build ... --dry-run
    """,
)
