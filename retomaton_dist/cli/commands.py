"""Every command, declared: what it takes, what runs it, and how it is used."""

from retomaton_dist.cli.command import STORE, Command
from retomaton_dist.settings.parsing import FLAGGED, TABLES
from retomaton_dist.settings.reproduce import EXPERIMENTS, STEP_TABLES
from retomaton_dist.settings.stages import STAGES

MAKING, USING, UPKEEP = (f"retomaton_dist.cli.{name}" for name in ("making", "using", "upkeep"))
# What `prune` deletes by name, with its help.
PRUNED = {
    "evaluation": "delete an evaluation of STORE/evaluations; its name is free then",
    "calibration": "delete a calibration",
    **dict(stage.prune for stage in STAGES if stage.named),
}
OPENED = {"store": {"metavar": "STORE", "help": "the store's folder"}}
MODES = ("bar", "lines", "json", "none")
PROGRESS = {"--progress": {"choices": MODES, "help": "as in the other commands"}}

DEMO = Command(
    name="demo",
    summary="Run everything end to end: on Python's own library, or on your text and model.",
    run=f"{MAKING}:demo",
    groups=("demo", "workers"),
    examples="""
        retomaton demo
        retomaton demo --corpus notes/*.txt --out notes-demo
        retomaton demo --corpus law/train.en --split line --model gpt2 --out law-demo \\
            --text law/test.en --calibrate-on law/dev.en
    """,
)
DOCTOR = Command(
    name="doctor",
    summary="Check this machine, or every node of a cluster: versions, memory, locks, and a "
    "self-test of each path on the CPU and every GPU; exit 1 if there is a problem.",
    run=f"{UPKEEP}:check_machines",
    arguments={
        "store": {
            "metavar": "STORE",
            "nargs": "?",
            "help": "a store, or where one is to be: is it shared?",
        },
        "--address": {
            "metavar": "TEXT",
            "help": "Ray cluster to look at: HOST:PORT, or auto for the one on this machine "
            "(default: RAY_ADDRESS, else this machine alone)",
        },
    },
    examples="""
        this machine, and whether a store's folder can be locked:
          retomaton doctor
          retomaton doctor law.store

        every node of a cluster: the same versions, the same folder, working GPUs?
          retomaton doctor /shared/law.store --address auto
    """,
)
PLAN = Command(
    name="plan",
    summary="Say what a build of so many tokens would take on such machines: disk, memory, core- "
    "and GPU-hours, network and time of every stage. No corpus is needed, and nothing is written.",
    run=f"{MAKING}:plan_build",
    groups=("plan",),
    tables=TABLES,
    examples="""
        this machine, keys as wide as the model's:
          retomaton plan --tokens 1e8 --model gpt2

        a cluster, and keys of any width:
          retomaton plan --tokens 1e9 --model gpt2 --nodes 8 --cores 32 --gpus 4
          retomaton plan --tokens 1e12 --dimension 1024 --parameters 1e9 --nodes 64 --cores 64

        settings of stages come from the file's tables, as those of `build` do:
          retomaton plan --tokens 1e9 --model gpt2 --config build.toml

        with rates that were measured there:
          python -m tests.benchmarks.scale --entries 1e6 --rates rates.json
          retomaton plan --tokens 1e9 --model gpt2 --rates rates.json

        a corpus that is there is better asked itself: retomaton build ... --dry-run
    """,
)
BUILD = Command(
    name="build",
    summary="Build a store: tokenize, extract, cluster, index, compile, suffix, ngram, statistics; "
    "what is up to date is skipped.",
    run=f"{MAKING}:build_store",
    groups=(*FLAGGED, "dry_run"),
    tables=TABLES,
    arguments=STORE,
    examples="""
        retomaton build law.store --corpus law/train.en --split line --model gpt2

        what would it take, stage by stage?
          retomaton build law.store --corpus law/train.en --split line --model gpt2 --dry-run

        settings of later stages come from the file's tables, [cluster], [index], [compile],
        [suffix] and [ngram]:
          retomaton build --config build.toml

        minutes instead of hours: no keys, only a suffix index and an n-gram model. The same
        command without --no-keys adds the rest:
          retomaton build law.store --corpus law/train.en --split line --model gpt2 --no-keys

        probabilities from a large LM, keys from a small one with the same tokenizer:
          retomaton build law.store --corpus law/train.en --split line --model gpt2-xl \\
              --key-model gpt2
    """,
)
STAGE_COMMANDS = tuple(
    Command(
        name=stage.name,
        summary=stage.summary,
        run=f"{MAKING}:run_stage",
        groups=stage.groups,
        arguments=STORE,
        opens=not stage.from_text,
        examples=stage.examples,
    )
    for stage in STAGES
)
CALIBRATE = Command(
    name="calibrate",
    summary="Fit what methods need on held-out text, and keep it in the store.",
    run=f"{USING}:calibrate_store",
    groups=("calibrate", "walk", "workers"),
    arguments=STORE,
    opens=True,
    examples="""
        all methods that the store can do, on text that nobody evaluates:
          retomaton calibrate law.store --on law/dev.en

        for generation alone, four of five searches saved:
          retomaton calibrate law.store --on law/dev.en --name fast \\
              --methods retomaton+lambda --target-foss 0.8

        used by scoring and generation (the newest by default), and by eval:
          retomaton score law.store --text law/test.en --calibration fast
          retomaton eval law.store --text law/test.en --calibration fast
    """,
)
EVAL = Command(
    name="eval",
    summary="Evaluate a text: perplexity against saved searches for all methods, and a report.",
    run=f"{USING}:evaluate_text",
    groups=("evaluate", "walk", "workers"),
    arguments=STORE,
    opens=True,
    examples="""
        everything the store can do, calibrated on other text:
          retomaton eval law.store --text law/test.en --calibrate-on law/dev.en

        two methods at chosen thresholds, lambda and temperature given:
          retomaton eval law.store --text law/test.en --methods knnlm,retomaton \\
              --tau 1,4,16,inf --lambda 0.9 --knn-temperature 10

        half of the searches saved; wall-clock measured:
          retomaton eval law.store --text law/test.en --calibrate-on law/dev.en \\
              --methods lm,knnlm,retomaton --target-foss 0,0.5,0.8 --mode live

        no search at all, in a store that never had a search index:
          retomaton eval law.store --text law/test.en --calibrate-on law/dev.en --no-index
    """,
)
COMPARE = Command(
    name="compare",
    summary="Compare two evaluations of the same text: perplexity at the nearest FoSS.",
    run=f"{USING}:compare",
    arguments={
        "first": {"metavar": "A", "help": "the folder of an evaluation"},
        "second": {"metavar": "B", "help": "the folder of another one of the same text"},
    },
    examples="""
        is the coarse automaton worse?
          retomaton eval law.store --text law/test.en --calibration fast --out fine
          retomaton eval law.store --text law/test.en --calibration coarse --out coarse
          retomaton compare fine coarse
    """,
)
REPORT = Command(
    name="report",
    summary="Make the results and report of an evaluation anew from its per-token scores.",
    run=f"{USING}:report",
    groups=("report",),
    arguments={"evaluation": {"metavar": "DIR", "help": "folder that `retomaton eval` has made"}},
    examples="""
        retomaton report law.store/evaluations/test.en-sweep-9b1d3c52
        retomaton report law.store/evaluations/test.en-sweep-9b1d3c52 --lambda 0.5
        retomaton report law.store/evaluations/test.en-sweep-9b1d3c52 --retrain 5
    """,
)
SCORE = Command(
    name="score",
    summary="Score texts: perplexity by document, with the automaton and without.",
    run=f"{USING}:score",
    groups=("score", "load"),
    arguments=STORE,
    opens=True,
    examples="""
        with the newest calibration of the store (`retomaton calibrate` makes one):
          retomaton score law.store --text law/test.en

        every token's numbers, and fewer searches:
          retomaton score law.store --text law/test.en --foss 0.8 --out tokens.parquet

        without a calibration, constants given:
          retomaton score law.store --text a.txt --method retomaton --lambda 0.4 \\
              --knn-temperature 20

        another LM with the store's tokenizer; several stores at once:
          retomaton score law.store --text a.txt --model gpt2-xl
          retomaton score law.store --with notes.store --text a.txt
    """,
)
GENERATE = Command(
    name="generate",
    summary="Go on from prompts with the automaton, token by token as they come.",
    run="retomaton_dist.cli.generate:run",
    groups=("generate", "load"),
    arguments={
        **STORE,
        "prompts": {
            "metavar": "PROMPTS",
            "nargs": "?",
            "help": "a file with a prompt per line, or - for lines typed: as --prompts",
        },
    },
    opens=True,
    examples="""
        with the newest calibration of the store (`retomaton calibrate` makes one):
          retomaton generate law.store --prompt 'Having regard to the Treaty'

        where does each token come from?
          retomaton generate law.store --prompt 'Having regard to the Treaty' --explain

        drawn at random, three texts, always the same ones for a seed:
          retomaton generate law.store --prompt 'Whereas' --do-sample --top-p 0.9 \\
              --num-return-sequences 3 --seed 7

        a prompt per line, eight side by side; or lines as they are typed:
          retomaton generate law.store --prompts prompts.txt --max-new-tokens 40
          retomaton generate law.store -

        few searches, no drafts; the LM alone, to compare:
          retomaton generate law.store --prompt 'Whereas' --foss 0.8 --draft 0
          retomaton generate law.store --prompt 'Whereas' --method lm
    """,
)
SERVE = Command(
    name="serve",
    summary="Serve a store over HTTP, for clients of OpenAI's API.",
    run="retomaton_dist.cli.serve:run",
    groups=("server", "load"),
    arguments=STORE,
    opens=True,
    examples="""
        on this machine, until Ctrl-C or SIGTERM:
          retomaton serve law.store
          curl localhost:8000/v1/completions -H 'content-type: application/json' \\
              -d '{"model": "law.store", "prompt": "Whereas", "max_tokens": 40}'

        for others, who must know a secret:
          retomaton serve law.store --host 0.0.0.0 --token-file secret.txt

        a method of `eval`; clients may ask for others, or for the plain LM with "walk": false
          retomaton serve law.store --method retomaton+lambda --foss 0.8
    """,
)
INSPECT = Command(
    name="inspect",
    summary="Show what a store was made from, its size, and how far each stage has come.",
    run=f"{UPKEEP}:inspect",
    arguments={
        **OPENED,
        "--json": {"action": "store_true", "help": "everything, as JSON"},
        "--histograms": {
            "metavar": "DIR",
            "help": "also draw the sizes of each clustering's states as PNG",
        },
    },
    examples="""
        retomaton inspect law.store
        retomaton inspect law.store --histograms figures
        retomaton inspect law.store --json | jq .stages.extract.config
    """,
)
VERIFY = Command(
    name="verify",
    summary="Check every digest, shape, range and pointer of a store; exit 1 if any is wrong.",
    run=f"{UPKEEP}:verify_store",
    arguments={
        **OPENED,
        "--repair": {
            "action": "store_true",
            "help": "forget the units that are damaged, so that the next run of their stage does "
            "just those anew",
        },
        **PROGRESS,
    },
    examples="""
        retomaton verify law.store
        retomaton verify law.store --repair     then run the named stage again
    """,
)
PRUNE = Command(
    name="prune",
    summary="Delete parts of a store by name, or its keys once an automaton with pq codes exists.",
    run=f"{UPKEEP}:prune",
    arguments={
        **OPENED,
        "--keys": {
            "action": "store_true",
            "help": "delete the keys for good: walking needs only an automaton's codes. "
            "Clustering, indexing and other codecs need the keys, so finish those first",
        },
        **{f"--{kind}": {"metavar": "NAME", "help": about} for kind, about in PRUNED.items()},
    },
    examples="""
        retomaton prune law.store --keys                once `retomaton compile law.store` is done
        retomaton prune law.store --calibration fast    to calibrate anew under this name
        retomaton prune law.store --automaton coarse --states coarse
    """,
)
SERVE_INDEX = Command(
    name="serve-index",
    summary="Serve an index with one actor per shard, for all jobs of a cluster to share.",
    run=f"{UPKEEP}:serve_index",
    groups=("serve", "workers"),
    arguments={
        **STORE,
        "--status": {
            "action": "store_true",
            "help": "show the running service: shards, resident memory, queries served, latency",
        },
        "--stop": {"action": "store_true", "help": "end the running service"},
    },
    opens=True,
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
TRAIN_LM = Command(
    name="train-lm",
    summary="Train a small language model from scratch, or fine-tune one.",
    run=f"{MAKING}:train_model",
    groups=("corpus", "train"),
    arguments={
        "--out": {"metavar": "DIR", "required": True, "help": "folder for the model"},
        **PROGRESS,
    },
    examples="""
        a new tokenizer and a small GPT-2-style model:
          retomaton train-lm --corpus 'src/**/*.py' --steps 5000 --out my-lm

        fine-tune an existing model for 2,000 steps:
          retomaton train-lm --corpus law.en --split line --init gpt2 --steps 2000 --out law-lm
    """,
)
REPRODUCE = Command(
    name="reproduce",
    summary="Run the paper's experiments at a size of your choice; one report beside its figures.",
    run=f"{MAKING}:reproduce_paper",
    groups=("reproduce", "workers"),
    tables=tuple(STEP_TABLES),
    arguments={
        "experiments": {
            "nargs": "?",
            "metavar": "EXPERIMENTS",
            "help": f"comma-separated: {', '.join(EXPERIMENTS)}; or all (default: all)",
        }
    },
    examples="""
        all of it, with a Wikipedia LM that is trained first:
          retomaton reproduce --data data --out paper

        one experiment, with an LM that is there, on the whole corpus:
          retomaton reproduce in-domain --data data --out paper --wiki-model wiki7M \\
              --wiki-bytes auto

        a stronger LM beside it:
          retomaton reproduce adaptation --data data --out paper --strong-model gpt2

        settings of the steps come from the file's tables: [train], [model], [extract], [cluster],
        [index], [compile], [evaluate], [walk]:
          retomaton reproduce --config paper.toml
    """,
)
