"""What `ray job submit --working-dir .` uploads of a clone: Ray's own packaging is asked."""

import shutil
import zipfile

import pytest
from ray._private.ray_constants import get_runtime_env_default_excludes
from ray._private.runtime_env.packaging import create_package

from tests.conftest import ROOT

MOST_BYTES = 5_000_000


def packaged(folder, target):
    """The names in the package that Ray makes of a working directory."""
    excludes = list(get_runtime_env_default_excludes())
    create_package(str(folder), target, include_gitignore=True, excludes=excludes)
    with zipfile.ZipFile(target) as package:
        return package.namelist()


def test_the_project_is_small_to_upload(tmp_path):
    names = packaged(ROOT, tmp_path / "package.zip")
    assert {"jobs/build_datastore.py", "retomaton_dist/storage/store.py"} <= set(names)
    assert (tmp_path / "package.zip").stat().st_size < MOST_BYTES


@pytest.mark.parametrize(
    "name", [".venv/lib/torch.so", "law.store/store.json", "deep/down/wiki.store/keys", ".git/x"]
)
def test_environments_and_stores_stay_behind(tmp_path, name):
    clone = tmp_path / "clone"
    for path in (clone / name, clone / "jobs/build_datastore.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    shutil.copy(ROOT / ".gitignore", clone)
    names = packaged(clone, tmp_path / "package.zip")
    assert name not in names
    assert "jobs/build_datastore.py" in names
