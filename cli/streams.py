"""Standard output and error that take nothing more: a full disk, /dev/full, a reader that went away."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TextIO

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a disk says that takes nothing more: it is the user's to mend, wherever it comes from."""


def settle() -> None:
    """Write what standard output still holds. Raises OSError as the write would have: it is part of the command."""
    if sys.stdout is not None:  # closed from the start (`>&-`)
        sys.stdout.flush()


def name_of(error: OSError) -> str | None:
    """What could not be written, of an error that names no file; None where the disk has nothing to do with it.

    Our own files are named by those who write them; what is left is standard output, and what libraries put aside.
    """
    if error.filename is not None:
        return str(error.filename)
    if error.errno not in FULL:
        return None
    return "standard output" if _takes_nothing(sys.stdout) else "a temporary file"


def _takes_nothing(stream: TextIO | None) -> bool:
    """Tried with a line break: what the failed write has left in the buffers is dropped by some Pythons."""
    try:
        os.write(stream.fileno(), b"\n")  # type: ignore[union-attr]
    except OSError as error:
        return error.errno in FULL
    except (AttributeError, ValueError):  # closed
        pass
    return False


def drop(stream: TextIO | None) -> None:
    """Nothing more can be written to `stream`; what it holds would be tried again when the program ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it has no file behind it
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())  # type: ignore[union-attr]
        os.close(null)


def say(message: str) -> None:
    """One line on stderr, whatever line breaks the message came with; the exit code speaks where it takes none."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"perf: {' '.join(message.split())}\n")
    except OSError:
        drop(sys.stderr)
