"""Folders that results are written into: new ones get a name of their own, given ones one writer at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from ..errors import UsageError
from .files import make_writable

RESULTS = Path("out")
"""Where single runs and captures go when nobody says where."""


def new_folder(parent: Path, before: str = "") -> Path:
    """A new folder, named after the time behind `before`; a number behind that where another began in the same second,
    or the clock went back. No two processes get the same. Raises UsageError where it cannot be made.
    """
    name = f"{before}{datetime.now():%Y%m%d-%H%M%S}"
    make_writable(parent)
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        except OSError as error:
            raise UsageError(f"{folder}: cannot be made ({error.strerror}); name another with --out") from error
        else:
            return folder


@contextmanager
def writers_in_turn(folder: Path) -> Iterator[None]:
    """Wait until nobody else is in here for `folder`: for a file in it that is read, changed and written back."""
    if not folder.is_dir():  # writing into it will say so
        yield
        return
    with _opened(folder) as descriptor:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold `folder`, which exists, while results are written into it. Raises UsageError where somebody else does.

    The lock goes with the process, however that ends. File systems without locks are written to without one.
    """
    with _opened(folder) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = f"{folder}: another process writes its results there; wait for it, or choose another --out"
            raise UsageError(told) from None
        except OSError:
            pass
        yield


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
