# Two commands do everything on a fresh clone: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# faiss-cpu and faiss-gpu exclude each other: `make demo FAISS=gpu` on a machine with a GPU.
FAISS ?= cpu
INSTALLED := $(VENV)/.installed-$(FAISS)
# What lies beside the benchmarks and measures nothing by itself is left out.
BENCHMARKS := $(filter-out __init__ memory small_store test_%,$(basename $(notdir $(wildcard tests/benchmarks/*.py))))

.PHONY: demo test test-slow lint bench clean help

help:
	@echo "make demo       install, then run everything end to end on Python's own library"
	@echo "make test       install, then format and lint checks, types, and the tests"
	@echo "make test-slow  the tests that take minutes"
	@echo "make bench      the benchmarks: ratios against named peers"
	@echo "make clean      remove the virtual environment, the demo and compiled kernels"

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(FAISS),gguf,dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/retomaton demo

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -m "not slow"

test-slow: lint
	$(BIN)/pytest -m slow

bench: $(INSTALLED)
	for name in $(BENCHMARKS); do \
	    echo "== $$name"; $(BIN)/python -m tests.benchmarks.$$name || exit 1; \
	done

clean:
	rm -rf $(VENV) retomaton-demo
	find jobs retomaton_dist storage tests -name __pycache__ -prune -exec rm -rf {} +
