"""Token ids are those of transformers; offsets are bytes of the UTF-8 text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.identity import identify
from retomaton_dist.lm.offsets import byte_offsets
from retomaton_dist.lm.tokenizer import check_vocabulary, wrap
from retomaton_dist.settings import ModelSettings
from tests.lm.tiny import TEXTS, byte_level_tokenizer, save_model

EOS = "<|endoftext|>"
texts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("the é東🗼 \n"), max_size=30
)


def metaspace_tokenizer():
    """As Llama's: a normaliser replaces spaces, so only the tokenizer itself knows offsets."""
    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>", "<s>", "</s>", *fallback], show_progress=False
    )
    backend.train_from_iterator(TEXTS * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


BYTE_LEVEL = byte_level_tokenizer(eos_token=EOS, bos_token=EOS)
METASPACE = metaspace_tokenizer()


def test_the_two_kinds_of_tokenizer_are_encoded_in_different_ways():
    assert wrap("a", BYTE_LEVEL).lengths is not None
    assert wrap("b", METASPACE).lengths is None


@pytest.mark.parametrize("tokenizer", [BYTE_LEVEL, METASPACE], ids=["byte-level", "metaspace"])
@given(documents=st.lists(texts, max_size=4))
def test_ids_are_those_of_transformers_without_special_tokens(tokenizer, documents):
    encoded = wrap("tiny", tokenizer).encode(documents)
    for text, (ids, offsets) in zip(documents, encoded, strict=True):
        assert ids.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
        assert (ids.dtype, offsets.dtype) == (np.int32, np.uint32)
        assert len(ids) == len(offsets)


@given(texts)
def test_tokens_of_a_byte_level_tokenizer_lie_end_to_end_in_the_text(text):
    ids, offsets = wrap("tiny", BYTE_LEVEL).encode([text])[0]
    data, starts = text.encode(), offsets.tolist()
    pieces = [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=False)]
    assert pieces == [token_bytes(BYTE_LEVEL.convert_ids_to_tokens(i)) for i in ids.tolist()]


def token_bytes(token):
    """Undo GPT-2's alphabet: printable bytes are themselves, the others follow from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return bytes(others[ord(c) - 256] if ord(c) >= 256 else ord(c) for c in token)


@given(texts)
def test_offsets_that_the_tokenizer_tracks_are_turned_into_bytes(text):
    _, offsets = wrap("tiny", METASPACE).encode([text])[0]
    tracked = METASPACE(text, add_special_tokens=False, return_offsets_mapping=True)
    expected = [len(text[:start].encode()) for start, _ in tracked["offset_mapping"]]
    assert offsets.tolist() == expected


@given(texts, st.data())
def test_byte_offsets_are_the_length_of_what_comes_before(text, data):
    characters = data.draw(st.lists(st.integers(0, len(text))))
    expected = [len(text[:c].encode()) for c in characters]
    assert byte_offsets(text, np.array(characters, dtype=np.int64)).tolist() == expected


@given(texts)
def test_decoding_gives_the_text_back(text):
    tokenizer = wrap("tiny", BYTE_LEVEL)
    assert tokenizer.decode(tokenizer.encode([text])[0][0]) == text


def test_special_tokens_written_in_a_text_keep_their_offsets():
    ids, offsets = wrap("tiny", BYTE_LEVEL).encode([f"é{EOS}é"])[0]
    assert BYTE_LEVEL.eos_token_id in ids.tolist()
    assert offsets.tolist()[ids.tolist().index(BYTE_LEVEL.eos_token_id)] == 2


def test_an_added_token_that_swallows_spaces_falls_back_to_tracked_offsets():
    from tokenizers import AddedToken

    tokenizer = byte_level_tokenizer(eos_token=EOS)
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True)])
    wrapped = wrap("tiny", tokenizer)
    assert wrapped.lengths is not None
    ids, offsets = wrapped.encode(["the    <mask>key"])[0]
    after_mask = ids.tolist().index(tokenizer.convert_tokens_to_ids("<mask>")) + 1
    assert offsets[after_mask] == len("the    <mask>")


@pytest.mark.parametrize(
    ("tokens", "bos", "eos"),
    [
        ({"bos_token": "<s>", "eos_token": "</s>"}, "<s>", "</s>"),
        ({"eos_token": "</s>"}, "</s>", "</s>"),
        ({"bos_token": "<s>"}, "<s>", None),
        ({}, None, None),
    ],
)
def test_the_model_reads_bos_first_else_eos_else_nothing(tokens, bos, eos):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=METASPACE.backend_tokenizer, **tokens)
    wrapped = wrap("tiny", tokenizer)
    ids = tokenizer.convert_tokens_to_ids
    assert wrapped.bos == (ids(bos) if bos else None)
    assert wrapped.eos == (ids(eos) if eos else None)


def test_truncation_and_padding_of_the_saved_tokenizer_are_ignored():
    tokenizer = byte_level_tokenizer(eos_token=EOS)
    tokenizer.backend_tokenizer.enable_truncation(2)
    tokenizer.backend_tokenizer.enable_padding(length=50)
    ids, _ = wrap("tiny", tokenizer).encode(["the key of an entry"])[0]
    assert wrap("tiny", tokenizer).decode(ids) == "the key of an entry"


def test_the_fingerprint_is_of_what_decides_the_entries():
    same = byte_level_tokenizer(eos_token=EOS, bos_token=EOS)
    assert wrap("x", same).fingerprint == wrap("y", BYTE_LEVEL).fingerprint
    others = [
        byte_level_tokenizer(),
        byte_level_tokenizer(vocabulary=270, eos_token=EOS, bos_token=EOS),
        METASPACE,
    ]
    prints = {wrap("z", tokenizer).fingerprint for tokenizer in [same, *others]}
    assert len(prints) == 4


def load(folder):
    return identify(ModelSettings(model=str(folder)), weights=False)[1]


def test_a_tokenizer_is_loaded_from_a_models_folder_without_a_word(tmp_path, capfd):
    BYTE_LEVEL.save_pretrained(save_model("gpt2", tmp_path))
    capfd.readouterr()
    tokenizer = load(tmp_path)
    long = "the key of an entry " * 500
    ids, _ = tokenizer.encode([long])[0]
    assert tokenizer.decode(ids) == long
    assert tokenizer.fingerprint == wrap("here", BYTE_LEVEL).fingerprint
    assert AutoTokenizer.from_pretrained(tmp_path).eos_token_id == tokenizer.eos
    assert capfd.readouterr().err == ""


def test_a_model_without_a_tokenizer_is_an_error(tmp_path):
    with pytest.raises(ModelError, match="has no tokenizer"):
        load(save_model("gpt2", tmp_path))


@pytest.mark.parametrize("damage", [lambda text: text[:1], lambda text: text.replace("BPE", "EPB")])
def test_a_damaged_tokenizer_is_an_error(tmp_path, damage):
    BYTE_LEVEL.save_pretrained(save_model("gpt2", tmp_path))
    file = tmp_path / "tokenizer.json"
    file.write_text(damage(file.read_text()))
    with pytest.raises(ModelError, match="tokenizer of model"):
        load(tmp_path)


def test_a_tokenizer_that_is_not_fast_is_refused():
    from transformers import CanineTokenizer

    with pytest.raises(ModelError, match="not a fast one"):
        wrap("canine", CanineTokenizer())


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused():
    tokenizer = wrap("tiny", BYTE_LEVEL)
    check_vocabulary(tokenizer, tokenizer.vocabulary)
    check_vocabulary(tokenizer, tokenizer.vocabulary + 64)
    with pytest.raises(ModelError, match="does not match the model"):
        check_vocabulary(tokenizer, tokenizer.vocabulary - 1)
