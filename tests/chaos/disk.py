"""A small disk of the campaign's own, that can be full or read-only without harm to anyone.

It is a tmpfs in a private mount namespace, which a user may have without being root. Whoever runs
inside, raylets and actors included, sees it; nobody else does.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSIDE = "RETOMATON_CHAOS_NAMESPACE"
SIZE = "400m"
BALLAST = "ballast"
BLOCK = bytes(1 << 20)


def enter_namespace(module: str) -> None:
    """Start `python -m MODULE` once more inside a namespace, if the system lets us.

    Returns where it does not, and inside.
    """
    unshare = shutil.which("unshare")
    if INSIDE in os.environ or unshare is None:
        return
    options = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
    allowed = subprocess.run([unshare, *options, "true"], capture_output=True).returncode == 0
    if allowed:
        os.environ[INSIDE] = "yes"
        os.execv(unshare, [unshare, *options, sys.executable, "-m", module, *sys.argv[1:]])


@dataclass(frozen=True)
class Disk:
    """The folder that all trials write below; `real` if it is a disk of its own."""

    folder: Path
    real: bool

    @classmethod
    def mounted(cls, folder: Path) -> "Disk":
        """Mount the disk, inside a namespace; elsewhere it is a folder like any other."""
        folder.mkdir()
        if INSIDE not in os.environ:
            return cls(folder, real=False)
        options = ["-t", "tmpfs", "-o", f"size={SIZE}", "chaos", str(folder)]
        done = subprocess.run(["mount", *options], capture_output=True)
        return cls(folder, real=done.returncode == 0)

    def fill(self) -> None:
        """Leave not a single byte."""
        with contextlib.suppress(OSError), (self.folder / BALLAST).open("ab", 0) as file:
            while True:
                file.write(BLOCK)

    def free(self) -> None:
        """Make room again."""
        (self.folder / BALLAST).unlink(missing_ok=True)

    def set_writable(self, writable: bool) -> None:
        """Let the whole disk be written, or not."""
        mode = "rw" if writable else "ro"
        subprocess.run(["mount", "-o", f"remount,{mode}", str(self.folder)], check=True)

    def unmount(self) -> None:
        """Be gone, with all that is on it."""
        if self.real:
            subprocess.run(["umount", "-l", str(self.folder)], check=False)
