"""Who may use the machine: processes that live side by side build at the same time and measure one after another.

    process 1   build ....... measure |                      build ... measure |
    process 2   build ...             measure |              build ...         measure |
    process 3   build .....                   measure |      build ...                 measure |

A process that measures is alone: nobody builds or stores meanwhile. It may let the others measure in between (pass on),
so that what each measures is spread over the time of all: a neighbour on the machine then falls on none of them alone.
Who has measured and wants to build the next arms waits until all that have built theirs have measured as well; so
processes go through the same work in rounds, and building takes the time of one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

ENVIRONMENT = "STEPSCOPE_TURNSTILE"
"""Names the folder of the locks to the processes of one sweep."""


PassOn = Callable[[], None]
PASSING_S = 0.01
"""So long a lock that was passed on is left to those who wait for it: whoever runs would be first to take it again."""


class Turns(Protocol):
    """Asked before any work that others may notice."""

    def building(self) -> AbstractContextManager[None]:
        """Work that others may do at the same time."""
        ...

    def measuring(self) -> AbstractContextManager[PassOn]:
        """Work that must be alone. Calling what it gives lets others measure, and returns at this one's next turn."""
        ...


class Alone:
    """The only process: it is always its turn."""

    def building(self) -> AbstractContextManager[None]:
        """At once."""
        return nullcontext()

    def measuring(self) -> AbstractContextManager[PassOn]:
        """At once; there is nobody to pass on to."""
        return nullcontext(lambda: None)


class Turnstile:
    """Two file locks in a folder that all processes know; both go with a process that dies.

    room     held together by those who build, alone by the one who measures
    waiting  held together by those who measure or wait for it; builders pass through it alone, so they come behind all
             of these
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._room, self._waiting = folder / "room.lock", folder / "waiting.lock"

    @contextmanager
    def building(self) -> Iterator[None]:
        """Waits until nobody measures or has asked to."""
        waiting = _locked(self._waiting, fcntl.LOCK_EX)
        room = _locked(self._room, fcntl.LOCK_SH)
        os.close(waiting)
        try:
            yield
        finally:
            os.close(room)

    @contextmanager
    def measuring(self) -> Iterator[PassOn]:
        """Waits until nobody else works."""
        waiting = _locked(self._waiting, fcntl.LOCK_SH)
        room = [_locked(self._room, fcntl.LOCK_EX)]

        def pass_on() -> None:
            os.close(room.pop())
            time.sleep(PASSING_S)
            room.append(_locked(self._room, fcntl.LOCK_EX))

        try:
            yield pass_on
        finally:
            for descriptor in room:
                os.close(descriptor)
            os.close(waiting)


def turns_of_process() -> Turns:
    """The turnstile that the environment names; without one this process is alone."""
    folder = os.environ.get(ENVIRONMENT)
    return Turnstile(Path(folder)) if folder else Alone()


def _locked(path: Path, kind: int) -> int:
    """A descriptor that holds the lock until it is closed."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, kind)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
