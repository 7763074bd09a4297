"""The weights of a model: whether their files are whole, and loading them."""

import json
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.failures import loading
from retomaton_dist.lm.source import ModelSource, require_gguf, weight_files

ZIP = b"PK"
# What weights lie in, unless they lie in parts that an index names.
ONE_FILE = {".safetensors": "model.safetensors", ".bin": "pytorch_model.bin"}


def check_files(source: ModelSource) -> None:
    """Raise ModelError if weights are missing, cut short or not weights; none of them is loaded."""
    if source.gguf:
        return  # It was looked at whole when its config was read.
    for path in _files(source):
        with loading("weights", source):
            if path.suffix == ".bin":
                _check_pickled(source, path)
            else:
                with safe_open(path, "pt"):
                    pass


def _files(source: ModelSource) -> list[Path]:
    """The files that transformers loads weights from; others may lie beside them."""
    found = {path.name: path for path in weight_files(source)}
    one_file = ONE_FILE[next(iter(found.values())).suffix]
    index = source.folder / f"{one_file}.index.json"
    if one_file in found or not index.exists():
        return [found[one_file]] if one_file in found else list(found.values())
    with loading("weights", source):
        parts = sorted(set(map(str, json.loads(index.read_bytes())["weight_map"].values())))
    missing = [name for name in parts if name not in found]
    if missing:
        raise ModelError(
            f"model {source.name!r}: {source.folder} lacks {len(missing)} of {len(parts)} files of "
            f"weights ({missing[0]}) that {index.name} names; is the download complete?"
        )
    return [found[name] for name in parts]


def _check_pickled(source: ModelSource, path: Path) -> None:
    with path.open("rb") as file:
        is_zip = file.read(len(ZIP)) == ZIP
    try:
        torch.load(path, map_location="meta", weights_only=True, mmap=is_zip)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"the weights of model {source.name!r} cannot be loaded: {path.name} holds other "
            "Python objects than weights, which might run code; convert it to safetensors"
        ) from error


def load_weights(source: ModelSource, dtype: torch.dtype, trust_remote_code: bool) -> Any:
    """Load the causal LM of transformers; ModelError unless every weight comes from its files."""
    require_gguf(source, "gguf", "accelerate")
    check_files(source)
    with loading("weights", source):
        model, report = AutoModelForCausalLM.from_pretrained(
            **source.arguments(),
            dtype=dtype,
            trust_remote_code=trust_remote_code,
            weights_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    wrong = {name for name, *_ in report["mismatched_keys"]} | set(report["missing_keys"])
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise ModelError(
            f"model {source.name!r} lacks weights that its config asks for, or has them in another "
            f"shape ({min(wrong)}{more}), and random ones would be in their place; "
            "is it a causal language model?"
        )
    return model
