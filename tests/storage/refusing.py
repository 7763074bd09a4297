"""A process for which the kernel refuses a system call, as some file systems do: by seccomp."""

import ctypes
import platform
import struct

SECCOMP = 22
NO_NEW_PRIVILEGES = 38
FILTER = 2
ALLOW, ERROR = 0x7FFF0000, 0x00050000
FLOCK = {"x86_64": 73, "aarch64": 32}


def refuse_flock(error: int) -> None:
    """Have every flock(2) of this process fail with this error from now on."""
    number = FLOCK[platform.machine()]
    lines = [
        (0x20, 0, 0, 0),  # load the number of the call
        (0x15, 0, 1, number),  # another: skip one line
        (0x06, 0, 0, ERROR | error),
        (0x06, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SECCOMP, FILTER, program, 0, 0)):
        if libc.prctl(*call):
            raise OSError(ctypes.get_errno(), "prctl")
