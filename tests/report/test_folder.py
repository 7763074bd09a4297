"""What is read of an evaluation's folder, and what is refused."""

import pytest

from retomaton_dist.errors import BadInput, DamagedStore
from retomaton_dist.report.folder import read_evaluation
from tests.report import made


def test_missing_and_damaged_files_are_named_in_one_line(tmp_path):
    with pytest.raises(BadInput, match="nowhere is no folder"):
        read_evaluation(tmp_path / "nowhere")
    folder = made.write(tmp_path / "out", made.files())
    (folder / "analysis.json").write_text('{"runs":')
    with pytest.raises(DamagedStore, match=r"analysis.json is damaged.*evaluate again"):
        read_evaluation(folder)
    (folder / "results.json").unlink()
    with pytest.raises(BadInput, match=r"results.json is missing"):
        read_evaluation(folder)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("results", lambda json: json.update(rows=3), r"results.json: rows is not what"),
        ("results", lambda json: json["rows"][2].pop("foss"), r"rows\[2\] is no point"),
        ("results", lambda json: json["rows"][2].update(interval=[1]), r"rows\[2\] is no point"),
        ("results", lambda json: json.pop("positions"), r"has no 'positions'"),
        ("analysis", lambda json: json["runs"].pop("foss"), r"analysis.json: runs has no 'foss'"),
        ("analysis", lambda json: json["overlap"][4].update(n="x"), r"overlap\[4\]: n is not"),
        ("analysis", lambda json: json.update(runs=[]), r"runs is not what"),
        ("settings", lambda json: json["size"].pop("entries"), r"size has no 'entries'"),
    ],
)
def test_json_of_another_shape_is_refused_with_its_place(tmp_path, file, change, message):
    content = made.files()
    change(content[file])
    folder = made.write(tmp_path / "out", content)
    with pytest.raises(DamagedStore, match=message) as refused:
        read_evaluation(folder)
    assert "\n" not in str(refused.value)
