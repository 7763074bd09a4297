"""A model is found by folder, GGUF file or hub id, and known again by its contents."""

import dataclasses
import shutil

import pytest

from retomaton_dist.errors import ModelError
from retomaton_dist.lm.source import find_model, fingerprint, weight_files
from retomaton_dist.settings import ModelSettings
from tests.lm.tiny import build_model, save_model


def find(model, **settings):
    return find_model(ModelSettings(model=str(model), **settings))


COMMITS = "a" * 40, "b" * 40


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return save_model("gpt2", tmp_path_factory.mktemp("gpt2"))


def test_a_folder_is_taken_as_it_is(gpt2):
    source = find(gpt2)
    assert (source.place, source.revision) == (str(gpt2), None)
    assert (source.folder, source.gguf) == (gpt2, None)
    assert weight_files(source) == [gpt2 / "model.safetensors"]


def test_a_gguf_file_is_known_by_its_suffix(tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    source = find(tmp_path / "tiny.gguf")
    assert (source.place, source.revision) == (str(tmp_path / "tiny.gguf"), None)
    assert (source.folder, source.gguf) == (tmp_path, "tiny.gguf")
    assert weight_files(source) == [tmp_path / "tiny.gguf"]


def test_the_place_of_a_relative_path_is_absolute(gpt2, monkeypatch):
    monkeypatch.chdir(gpt2.parent)
    assert find(gpt2.name).place == str(gpt2)


@pytest.mark.parametrize(
    "name", ["/no/such/folder", "./nothing", "a/b/c", "gone.gguf", "~nobody/x"]
)
def test_a_path_that_does_not_exist_is_said_so(name):
    with pytest.raises(ModelError, match=r"no such file or folder"):
        find(name)


def test_a_folder_without_a_config_is_no_model(tmp_path):
    with pytest.raises(ModelError, match=r"no config\.json"):
        find(tmp_path)


def test_a_file_that_is_not_gguf_is_no_model(gpt2):
    with pytest.raises(ModelError, match=r"not a \.gguf file"):
        find(gpt2 / "config.json")


def test_a_folder_without_weights_has_no_fingerprint(tmp_path):
    build_model("gpt2").config.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="has no weights"):
        fingerprint(find(tmp_path))


def cached_hub_model(cache, folder, name, commit=COMMITS[0]):
    """Lay a model out as the hub's cache does; `main` is the commit laid out last."""
    snapshot = cache / f"models--{name.replace('/', '--')}" / "snapshots" / commit
    shutil.copytree(folder, snapshot)
    refs = snapshot.parent.parent / "refs"
    refs.mkdir(exist_ok=True)
    (refs / "main").write_text(commit)
    return snapshot


@pytest.fixture
def offline_cache(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_a_hub_model_in_the_cache_needs_no_network(gpt2, offline_cache):
    snapshot = cached_hub_model(offline_cache, gpt2, "someone/tiny-gpt2")
    source = find("someone/tiny-gpt2")
    assert source.folder == snapshot
    assert (source.place, source.revision) == ("someone/tiny-gpt2", COMMITS[0])
    assert fingerprint(source) == fingerprint(find(gpt2))


def test_a_revision_becomes_the_commit_that_it_stands_for(gpt2, offline_cache):
    first = cached_hub_model(offline_cache, gpt2, "someone/tiny-gpt2")
    (first.parent.parent / "refs" / "v1").write_text(COMMITS[0])
    second = cached_hub_model(offline_cache, gpt2, "someone/tiny-gpt2", COMMITS[1])
    for revision, folder in ((None, second), ("v1", first), (COMMITS[0], first)):
        source = find("someone/tiny-gpt2", revision=revision)
        assert (source.folder, source.revision) == (folder, folder.name)


def test_the_tokenizer_alone_needs_no_weights(gpt2, offline_cache):
    snapshot = cached_hub_model(offline_cache, gpt2, "someone/tiny-gpt2")
    (snapshot / "model.safetensors").unlink()
    settings = ModelSettings(model="someone/tiny-gpt2")
    assert find_model(settings, weights=False).folder == snapshot


@pytest.mark.usefixtures("offline_cache")
def test_a_hub_model_that_cannot_be_reached_is_said_so():
    with pytest.raises(ModelError, match="'someone/absent' at revision 'v1' is no folder here"):
        find("someone/absent", revision="v1")


def test_the_fingerprint_is_of_contents_not_of_places(gpt2, tmp_path):
    copy = shutil.copytree(gpt2, tmp_path / "copy")
    (copy / "README.md").write_text("not part of the model")
    assert fingerprint(find(copy)) == fingerprint(find(gpt2))


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_the_fingerprint_changes_with_a_byte_of_config_or_weights(gpt2, tmp_path, file):
    copy = shutil.copytree(gpt2, tmp_path / "copy")
    data = bytearray((copy / file).read_bytes())
    data[-2] ^= 1
    (copy / file).write_bytes(data)
    assert fingerprint(find(copy)) != fingerprint(find(gpt2))


def test_a_file_that_cannot_be_read_is_named(gpt2, tmp_path):
    copy = shutil.copytree(gpt2, tmp_path / "copy")
    (copy / "config.json").unlink()
    (copy / "config.json").symlink_to(copy / "config.json")
    source = dataclasses.replace(find(gpt2), folder=copy)
    with pytest.raises(ModelError, match=r"cannot read .*config\.json: "):
        fingerprint(source)
