"""A small stage whose units write a file each: enough to follow a stage through its life."""

from retomaton_dist.storage import files, records
from retomaton_dist.storage.canonical import content_hash
from retomaton_dist.storage.records import Record
from retomaton_dist.storage.store import writing

CONFIG = {"k": 4}
MADE_WITH = {"numpy": "2"}


def do_unit(path, unit, config=CONFIG, stage="index/a", attempt=0):
    """What a worker does: write a file, then declare the unit done."""
    name = f"index/part-{unit}"
    digest = files.write(path / name, f"part {unit}".encode())
    record = Record(unit, content_hash(config), {name: digest}, attempt=attempt)
    records.write(path, stage, record)


def run(path, order, stage="index/a", merged=False):
    """A whole stage of as many units as `order` has; return how it was committed."""
    with writing(path) as writer:
        missing = writer.begin(stage, CONFIG, len(order), MADE_WITH)
        for unit in order:
            if unit in missing:
                do_unit(path, unit, stage=stage)
        whole = {"index/whole": files.write(path / "index/whole", b"all")}
        return writer.finish(stage, whole, {"recall": 0.5}, merges=merged)
