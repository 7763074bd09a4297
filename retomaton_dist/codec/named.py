"""Codecs by their names: `settings/choices.py` lists them."""

from retomaton_dist.codec.codec import Codec, CodecSizes, Column, KeyCodec
from retomaton_dist.settings.choices import CODECS
from retomaton_dist.storage.automaton import AutomatonShape
from retomaton_dist.storage.column_folder import ColumnFolder


def codec_named(name: str) -> KeyCodec:
    """The codec of this name."""
    codec: KeyCodec = CODECS[name]()
    return codec


def columns_of(shape: AutomatonShape) -> dict[str, Column]:
    """Type and length of every column of an automaton, its codec's among them."""
    codec = codec_named(shape.codec)
    return {**shape.columns(), **codec.columns(shape.entries, _sizes(shape))}


def open_codec(files: ColumnFolder[AutomatonShape]) -> Codec:
    """The codec of an automaton's folder, mapped; sizes that no codec has are refused."""
    shape = files.shape
    if shape.codec not in CODECS or (shape.code_size and shape.dimension % shape.code_size):
        raise files.damaged(f"no codec {shape.codec} has codes of {shape.code_size} bytes")
    codec, sizes = codec_named(shape.codec), _sizes(shape)
    if codec.encodes and not shape.code_size:
        raise files.damaged(f"no codec {shape.codec} has codes of 0 bytes")
    columns = codec.columns(shape.entries, sizes)
    return codec.open(lambda name: files.mapped(name, *columns[name]), sizes)


def _sizes(shape: AutomatonShape) -> CodecSizes:
    return CodecSizes(shape.dimension, shape.code_size, shape.cells)
