# Two commands do everything on a fresh clone: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# faiss-cpu and faiss-gpu exclude each other: `make demo FAISS=gpu` on a machine with a GPU.
FAISS ?= cpu
INSTALLED := $(VENV)/.installed-$(FAISS)
# Two processes, or as many as are asked for: `make test CORES=4`.
CORES ?= 2
PYTEST := $(BIN)/pytest -n $(CORES)
# What lies beside the benchmarks and measures nothing by itself is left out.
BENCHMARKS := $(filter-out __init__ memory small_store test_%,$(basename $(notdir $(wildcard tests/benchmarks/*.py))))

# `make chaos FAULTS=50 SEED=1`; narrower: `make chaos CHAOS='--only "GCS killed" --on extract'`.
FAULTS ?= 50
SEED ?= 1

.PHONY: demo test test-slow test-gpu lint bench chaos docs clean help

help:
	@echo "make demo       install, then run everything end to end on Python's own library"
	@echo "make test       install, then format and lint checks, types, and the tests"
	@echo "make test-slow  the tests that take minutes"
	@echo "make test-gpu   GPU against CPU, path by path, on a machine that has one (FAISS=gpu)"
	@echo "make bench      the benchmarks: ratios against named peers"
	@echo "make chaos      faults at random on a cluster of three raylets: FAULTS=50 SEED=1"
	@echo "make docs       write docs/reference/ anew from the declarations in the code"
	@echo "make clean      remove the virtual environment, the demo and compiled kernels"

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(FAISS),gguf,serve,dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/retomaton demo

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(PYTEST) -m "not slow"

# What is drawn at random is drawn four times as often as in `make test`.
test-slow: lint
	$(PYTEST) -m "slow or hypothesis" --hypothesis-profile=thorough

test-gpu: $(INSTALLED)
	$(BIN)/pytest -m gpu

bench: $(INSTALLED)
	for name in $(BENCHMARKS); do \
	    echo "== $$name"; $(BIN)/python -m tests.benchmarks.$$name || exit 1; \
	done

chaos: $(INSTALLED)
	$(BIN)/python -m tests.chaos --faults $(FAULTS) --seed $(SEED) $(CHAOS)

docs: $(INSTALLED)
	$(BIN)/python -m tests.docs.reference

clean:
	rm -rf $(VENV) retomaton-demo
	find jobs retomaton_dist storage tests -name __pycache__ -prune -exec rm -rf {} +
