"""Extraction against a bare loop over the model, and its memory at two sizes of N.

    python -m tests.benchmarks.extraction                 both models, random weights
    python -m tests.benchmarks.extraction --model DIR     a real one instead
    python -m tests.benchmarks.extraction --small         the smaller model, little of everything

The worker of the stage does its units in this process, chunks and records written durably. The
same batches go through the model's body (embeddings, all layers, final norm; no LM head) in a
loop that keeps nothing, and through a loop that, like extraction, stops at the key. All three
take turns unit by unit, on one thread; a ratio is the median over units. Beside wall-clock time
stands the processor time of this process, which others on the machine do not disturb.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.model import LanguageModel
from retomaton_dist.lm.model_reader import WindowReader
from retomaton_dist.settings import ModelSettings
from retomaton_dist.stages.extract import ExtractWorker, KeyReader
from retomaton_dist.storage import corpus, datastore, records
from retomaton_dist.storage.corpus import Corpus, TokenisedDocument
from retomaton_dist.storage.datastore import Shape
from retomaton_dist.storage.records import Record
from tests.lm.tiny import byte_level_tokenizer

CONTEXT, STRIDE, BATCH_TOKENS, CHUNK = 256, 128, 4096, 4096
WANTED = 0.90


def small_gpt2():
    """A model of width 128, as the demo trains."""
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=4096,
            n_embd=128,
            n_layer=5,
            n_head=4,
            n_positions=CONTEXT,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def llama_15m():
    """A Llama of the size of stories15M."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32_000,
            hidden_size=288,
            intermediate_size=768,
            num_hidden_layers=6,
            num_attention_heads=6,
            max_position_embeddings=CONTEXT,
        )
    )


MODELS = {"gpt2-d128": small_gpt2, "llama-15m": llama_15m}
# (documents of about so many entries, their share): sentences, paragraphs, whole files.
TEXTS = {"sentences": [(25, 1.0)], "mixed": [(25, 0.2), (300, 0.3), (5000, 0.5)]}


def make_corpus(store, entries, vocabulary, text):
    """A tokenised corpus of random tokens with documents of these lengths; no Ray is needed."""
    draw = np.random.default_rng(0)
    documents, total = [], 0
    while total < entries:
        mean, _ = TEXTS[text][draw.choice(len(TEXTS[text]), p=_by_number(TEXTS[text]))]
        length = min(1 + draw.poisson(mean), entries - total)
        tokens = draw.integers(3, vocabulary, length, dtype=np.int32)
        offsets = np.arange(length, dtype=np.uint32)
        documents.append(TokenisedDocument(f"d{total}", length, 0, total, tokens, offsets))
        total += length
    corpus.write_part(store, 0, documents)
    corpus.merge(store, 1)
    source = {"name": "random", "path": "random", "bytes": total, "digest": ""}
    corpus.write_sources(store, [source])
    return Corpus(store, prefix=1, vocabulary=vocabulary)


def _by_number(kinds):
    weights = np.array([share / mean for mean, share in kinds])
    return weights / weights.sum()


def make_worker(store, model, entries, text):
    """The stage's own worker and records, ready for the units 0..chunks-1 of one chunk each."""
    spec, _ = identify(ModelSettings(model=str(model)))
    lm = LanguageModel.load(spec, "cpu")
    words = make_corpus(store, entries, lm.vocabulary, text)
    shape = Shape(entries, lm.dimension, CHUNK)
    datastore.create(store, shape)
    reader = KeyReader(WindowReader(words, CONTEXT, STRIDE, BATCH_TOKENS), spec, "cpu")
    return Recording(store, ExtractWorker(shape, reader)), reader, shape


class Recording:
    """Does units and writes their records, as in a stage, but without a run that holds a lock."""

    def __init__(self, store, worker):
        self._store, self._worker = store, worker

    def run(self, unit):
        """Do one unit."""
        done = self._worker.run(*unit)
        records.write(self._store, "extract", Record(unit[0], "benchmark", done.files, done.facts))


WAYS = ("extraction", "full body", "body up to the key")


@dataclass
class Contest:
    """What each way took, unit by unit: wall-clock and processor seconds."""

    taken: dict[str, list[tuple[float, float]]]
    tokens: list[int]

    def after_warming_up(self):
        """The same without the first unit."""
        return Contest({way: taken[1:] for way, taken in self.taken.items()}, self.tokens[1:])

    def ratio(self, bare, kind):
        """Extraction against a bare loop; kind 0 is wall-clock, 1 processor time."""
        pairs = zip(self.taken[bare], self.taken["extraction"], strict=True)
        return statistics.median(one[kind] / other[kind] for one, other in pairs)

    def lines(self):
        """The ratios that count, and the speed behind them."""
        for bare in WAYS[1:]:
            wall, processor = self.ratio(bare, 0), self.ratio(bare, 1)
            yield f"  {wall:5.2f} of a bare loop, {bare} (by processor time {processor:.2f})"
        pairs = zip(self.tokens, self.taken["extraction"], strict=True)
        yield f"  {statistics.median(count / wall for count, (wall, _) in pairs):,.0f} tokens/s"


def timed(action):
    """Wall-clock and processor seconds that an action takes."""
    start = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def compete(worker, reader, shape, units):
    """Let the three ways take turns on each unit, after one unit to warm up."""
    body = reader.lm.model.get_decoder()
    found = Contest({way: [] for way in WAYS}, [])
    for unit in range(units + 1):
        first, last = shape.chunk_range(unit)
        read = list(reader.windows.batches(reader.windows.spans(first, last)))
        inputs = [torch.from_numpy(rows) for rows, _ in read]
        actions = (
            lambda unit=unit: worker.run((unit, range(unit, unit + 1))),
            lambda inputs=inputs: run_body(body, inputs),
            lambda inputs=inputs: [reader.lm.keys(rows) for rows in inputs],
        )
        for way, action in zip(WAYS, actions, strict=True):
            found.taken[way].append(timed(action))
        found.tokens.append(sum(item.window.length for _, kept in read for item in kept))
    return found.after_warming_up()


def run_body(body, inputs):
    """Run the whole body over the batches and keep nothing."""
    with torch.inference_mode():
        for rows in inputs:
            body(input_ids=rows, use_cache=False)


def show_speed(name, model, folder, units):
    """Print the ratios for one model, and return the worst."""
    ratios = []
    for text in TEXTS:
        store = folder / f"{name}-{text}.store"
        parts = make_worker(store, model, (units + 1) * CHUNK, text)
        found = compete(*parts, units)
        print(f"{name}, {text}: {units} units of {CHUNK:,} entries, d {parts[2].dimension}")
        print("\n".join(found.lines()), flush=True)
        ratios.append(found.ratio("full body", 0))
        shutil.rmtree(store)
    return min(ratios)


def show_memory(name, model, folder, chunks):
    """Print the peak memory of a process that extracts N entries, for two sizes of N."""
    print(f"{name}, mixed: peak memory of a worker's process")
    for entries in (CHUNK * count for count in chunks):
        store = folder / f"{name}-{entries}.store"
        line = [sys.executable, "-m", "tests.benchmarks.extraction", "--measure"]
        line += [str(store), str(model), str(entries)]
        done = subprocess.run(line, check=True, capture_output=True, text=True)
        peak, anonymous = map(int, done.stdout.split())
        print(f"  N {entries:>9,}: {peak / 1e6:,.0f} MB, {anonymous / 1e6:,.0f} MB not files")
        shutil.rmtree(store)


def measure(store, model, entries):
    """Extract everything in this process; print its peak memory and what of it is its own."""
    worker, _, shape = make_worker(Path(store), model, int(entries), "mixed")
    anonymous = 0
    for unit in range(shape.chunks):
        worker.run((unit, range(unit, unit + 1)))
        anonymous = max(anonymous, _status("RssAnon"))
    print(_status("VmHWM"), anonymous)


def _status(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise LookupError(name)


def main():
    """Print all figures; exit with 1 if extraction is slower than wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="folder of a model to take instead of random ones")
    parser.add_argument("--units", type=int, default=6, help="units per figure")
    parser.add_argument("--small", action="store_true", help="a quick look: one model, one unit")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.measure:
        measure(*arguments.measure)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder, worst = Path(name), []
        units, chunks = (1, (1, 4)) if arguments.small else (arguments.units, (4, 16))
        for label, model in chosen_models(arguments.model, folder, arguments.small):
            worst.append(show_speed(label, model, folder, units))
            show_memory(label, model, folder, chunks)
    print(f"worst ratio {min(worst):.2f}, wanted {WANTED:.2f}")
    return int(min(worst) < WANTED)


def chosen_models(given, folder, small):
    """The given model, or the two of random weights; of these the smaller alone if `small`."""
    if given:
        yield Path(given).name, given
        return
    for name, make in list(MODELS.items())[: 1 if small else None]:
        torch.manual_seed(0)
        make().eval().save_pretrained(folder / name)
        # Never used, but part of what a model is identified by.
        byte_level_tokenizer().save_pretrained(folder / name)
        yield name, folder / name


if __name__ == "__main__":
    sys.exit(main())
