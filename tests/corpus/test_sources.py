"""Which files a corpus consists of, and what identifies it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retomaton_dist.corpus import sources
from retomaton_dist.corpus.sources import changes, find_sources, fingerprint
from retomaton_dist.errors import CorpusError


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 64 bytes, so that a short file has several."""
    monkeypatch.setattr(sources, "BLOCK", 64)


def names(*corpus):
    return [source.name for source in find_sources([str(item) for item in corpus])]


def print_of(*corpus):
    return fingerprint(find_sources([str(item) for item in corpus]))


def test_a_file_is_one_source_with_its_size_kind_and_absolute_path(tmp_path, monkeypatch):
    write(tmp_path, a_txt="four")
    monkeypatch.chdir(tmp_path)
    [source] = find_sources(["a.txt"])
    assert (source.name, source.bytes, source.kind) == ("a.txt", 4, "text")
    assert source.path == str(tmp_path / "a.txt")


def test_a_folder_is_all_files_below_it_sorted_by_path(tmp_path):
    write(tmp_path, b_txt="b", a__z_txt="z", a__b__c_txt="c", Z_md="Z")
    assert names(tmp_path) == ["Z.md", "a/b/c.txt", "a/z.txt", "b.txt"]


def test_hidden_files_and_folders_are_passed_over(tmp_path):
    write(tmp_path, a_txt="a", _hidden="x", _git__config="x", sub___cache__x="x")
    assert names(tmp_path) == ["a.txt"]


def test_a_hidden_file_that_is_named_is_read(tmp_path):
    write(tmp_path, _hidden="x")
    assert names(tmp_path / ".hidden") == [".hidden"]


def test_a_glob_is_sorted_and_named_from_the_folder_that_its_files_share(tmp_path):
    write(tmp_path, src__b_py="b", src__pkg__a_py="a", src__note_md="n")
    assert names(tmp_path / "**" / "*.py") == ["b.py", "pkg/a.py"]


def test_a_glob_passes_over_folders(tmp_path):
    write(tmp_path, a_txt="a", folder_txt__b_txt="b")
    assert names(tmp_path / "*.txt") == ["a.txt"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path):
    (tmp_path / "a[1].txt").write_text("x")
    assert names(tmp_path / "a[1].txt") == ["a[1].txt"]


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    write(tmp_path, a_txt="a")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert names("~/a.txt") == names("~/*.txt") == ["a.txt"]


def test_several_items_stand_in_the_order_in_which_they_were_named(tmp_path):
    write(tmp_path, a_txt="a", b_txt="b", sub__c_txt="c")
    assert names(tmp_path / "b.txt", tmp_path / "sub", tmp_path / "a.txt") == [
        "b.txt",
        "c.txt",
        "a.txt",
    ]


def test_a_file_that_is_named_twice_is_read_once_where_it_was_named_first(tmp_path):
    write(tmp_path, a_txt="a", b_txt="b")
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    assert names(tmp_path / "b.txt", tmp_path, tmp_path / "a.txt") == ["b.txt", "a.txt"]


def test_kinds_go_by_the_name_even_of_a_link_to_a_file_without_one(tmp_path):
    write(tmp_path, blobs__0123="{}")
    for name in ("a.jsonl", "b.parquet", "c.txt", "d"):
        (tmp_path / name).symlink_to(tmp_path / "blobs" / "0123")
        [source] = find_sources([str(tmp_path / name)])
        expected = {"a.jsonl": "jsonl", "b.parquet": "parquet"}.get(name, "text")
        assert source.kind == expected


def test_the_fingerprint_does_not_depend_on_where_the_files_lie_or_what_they_are_called(tmp_path):
    here, there = write(tmp_path / "1", a_txt="a", b_txt="b"), write(tmp_path / "2", x="a", y="b")
    assert print_of(here) == print_of(there)


def test_the_fingerprint_depends_on_contents_order_kind_and_number_of_files(tmp_path):
    write(tmp_path, a_txt="a", b_txt="b", c_txt="ab", d_jsonl="a")
    item = {name: tmp_path / name for name in ("a.txt", "b.txt", "c.txt", "d.jsonl")}
    prints = [
        print_of(item["a.txt"]),
        print_of(item["b.txt"]),
        print_of(item["c.txt"]),
        print_of(item["d.jsonl"]),
        print_of(item["a.txt"], item["b.txt"]),
        print_of(item["b.txt"], item["a.txt"]),
    ]
    assert len(set(prints)) == len(prints)


@given(parts=st.lists(st.binary(min_size=1, max_size=4), min_size=2, max_size=4))
def test_where_one_file_ends_and_the_next_begins_is_part_of_the_fingerprint(
    parts, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("cut")
    for number, part in enumerate(parts):
        (folder / f"part-{number}").write_bytes(part)
    (folder / "whole").write_bytes(b"".join(parts))
    assert print_of(folder / "part-*") != print_of(folder / "whole")


def test_progress_is_told_every_byte(tmp_path):
    told = []
    find_sources([str(write(tmp_path, a="12", b="345"))], told.append)
    assert told == [2, 3]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("missing.txt", "missing.txt: no such file, folder or glob"),
        ("*.nothing", r"\*.nothing: no such file, folder or glob"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, item, message):
    with pytest.raises(CorpusError, match=message):
        find_sources([str(tmp_path / item)])


def test_no_corpus_at_all_is_refused():
    with pytest.raises(CorpusError, match="give files, folders or globs"):
        find_sources([])


def test_a_folder_without_files_is_refused(tmp_path):
    write(tmp_path, _hidden="x")
    with pytest.raises(CorpusError, match="folder without files"):
        find_sources([str(tmp_path)])


def test_files_without_a_byte_are_refused_but_one_among_others_is_not(tmp_path):
    write(tmp_path, a="", b="")
    with pytest.raises(CorpusError, match="is empty"):
        find_sources([str(tmp_path)])
    write(tmp_path, c="x")
    assert names(tmp_path) == ["a", "b", "c"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux")
def test_a_file_that_cannot_be_read_is_named_with_the_reason():
    with pytest.raises(CorpusError, match="cannot read /proc/self/mem: Input/output error"):
        find_sources(["/proc/self/mem"])


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")).write_text("x")
    with pytest.raises(CorpusError, match="not UTF-8; rename it"):
        find_sources([str(tmp_path)])


def test_a_source_gives_its_bytes_back_from_any_place(tmp_path, small_blocks):
    data = bytes(range(256)) * 3
    (tmp_path / "a").write_bytes(data)
    [source] = find_sources([str(tmp_path / "a")])
    with source.open() as file:
        assert file.read() == data
        for place in (0, 1, 63, 64, 65, 700, len(data)):
            file.seek(place)
            assert file.read(100) == data[place : place + 100]
        file.seek(-5, os.SEEK_END)
        assert file.read() == data[-5:]


@pytest.mark.parametrize("place", [0, 63, 64, 299])
def test_a_source_whose_bytes_differ_is_refused_even_with_the_same_size_and_time(
    tmp_path, small_blocks, place
):
    path = tmp_path / "a"
    path.write_bytes(bytes(300))
    [source] = find_sources([str(path)])
    time = path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"!")
    os.utime(path, ns=(time, time))
    with source.open() as file, pytest.raises(CorpusError, match="not the file that this run"):
        file.read()


def test_a_source_that_changes_under_the_reader_never_yields_a_changed_byte(tmp_path, small_blocks):
    path = tmp_path / "a"
    path.write_bytes(bytes(300))
    [source] = find_sources([str(path)])
    with source.open() as file:
        assert file.read(64) == bytes(64)
        path.write_bytes(b"!" * 300)
        with pytest.raises(CorpusError, match="not the file that this run"):
            file.read()


def test_a_copy_with_another_time_is_the_same_source(tmp_path):
    [source] = find_sources([str(write(tmp_path, a="text") / "a")])
    os.utime(tmp_path / "a", (1, 1))
    with source.open() as file:
        assert file.read() == b"text"


@pytest.mark.parametrize("change", ["shorter", "gone"])
def test_a_source_that_is_shorter_or_gone_is_refused(tmp_path, change):
    [source] = find_sources([str(write(tmp_path, a="text") / "a")])
    if change == "gone":
        (tmp_path / "a").unlink()
    else:
        (tmp_path / "a").write_text("tex")
    with pytest.raises(CorpusError, match=r"cannot read|not the file that this run"):
        source.open().read()


def test_a_pipe_or_a_device_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/tty"):
        if Path(path).exists():
            with pytest.raises(CorpusError, match="is a pipe or a device"):
                find_sources([str(path)])
    (tmp_path / "a.txt").write_text("text")
    assert [source.name for source in find_sources([str(tmp_path)])] == ["a.txt"]


def test_changes_name_the_first_files_that_came_went_or_changed(tmp_path):
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text(f"text {number}")
    sources = find_sources([str(tmp_path)])
    before = [{"name": source.name, "digest": source.digest} for source in sources]
    assert changes(before[:1], sources) == ("1.txt, 2.txt, 3.txt, 4.txt, 5.txt and 3 more are new")
    assert changes(before, sources[1:]) == "0.txt is gone"
    assert changes([{**before[0], "digest": "x"}], sources[:1]) == "0.txt is changed"
    assert changes(before, sources[::-1]).startswith("the same files in another order")


def test_an_unknown_user_is_a_path_that_is_not_there():
    with pytest.raises(CorpusError, match="~nouser/x: no such file"):
        find_sources(["~nouser/x"])
