"""Does tokenising scale with workers? Bytes per second of source with 1 and with 2 of them.

    python -m tests.benchmarks.tokenizing [--corpus FILE --model MODEL] [--megabytes 24]

Starting workers takes seconds and says nothing about scaling, so that a small and a large text
are tokenised, and the rate is that of what the large one has more. Best of a few repeats.
"""

import argparse
import itertools
import random
import tempfile
import time
from pathlib import Path

import retomaton_dist as rd
from tests.conftest import TEXT, save_tiny_model

WORKERS = (1, 2)
UNIT_BYTES = 1 << 20
SMALL_SHARE = 6


def generated_text(size):
    """Lines of words, so many bytes of them; always the same."""
    chosen, words = random.Random(0), TEXT.split()
    lines = (" ".join(chosen.choices(words, k=20)) + "\n" for _ in itertools.count())
    text, found = [], 0
    while found < size:
        text.append(next(lines))
        found += len(text[-1].encode())
    return "".join(text).encode()


def beginning(path, size):
    """Bytes of whole lines from a file's beginning."""
    with Path(path).open("rb") as file:
        return file.read(size) + file.readline()


def seconds(folder, data, model, workers):
    """Wall-clock of one tokenising, start of the workers included."""
    corpus = folder / "corpus.txt"
    corpus.write_bytes(data)
    chosen = {"corpus": corpus, "split": "line", "model": model, "unit_bytes": UNIT_BYTES}
    with tempfile.TemporaryDirectory(dir=folder) as store:
        start = time.perf_counter()
        rd.tokenize(f"{store}/a.store", workers=workers, progress="none", **chosen)
        return time.perf_counter() - start


def measured(folder, texts, model, repeats):
    """Least seconds of each number of workers over each text; in turns, as loads come and go."""
    runs = {(workers, text): [] for workers in WORKERS for text in texts}
    for (workers, text), found in list(runs.items()) * repeats:
        found.append(seconds(folder, text, model, workers))
    return {which: min(found) for which, found in runs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", help="text file; lines are documents (default: generated)")
    parser.add_argument("--model", help="model whose tokenizer is used (default: a tiny one)")
    parser.add_argument("--megabytes", type=float, default=24)
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    size = int(given.megabytes * 1e6)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = beginning(given.corpus, size) if given.corpus else generated_text(size)
        model = given.model or save_tiny_model(folder / "model")
        small = data[: data.index(b"\n", len(data) // SMALL_SHARE) + 1]
        spent = measured(folder, (small, data), model, given.repeats)
    ray.shutdown()
    more = {workers: spent[workers, data] - spent[workers, small] for workers in WORKERS}
    for workers in WORKERS:
        speed = (len(data) - len(small)) / more[workers] / 1e6
        print(f"{workers} workers: {speed:.2f} MB/s, all in all {spent[workers, data]:.1f} s")
    print(f"2 workers are {more[1] / more[2]:.2f} times as fast as 1")


if __name__ == "__main__":
    main()
