"""Notes, timed calls and the times of steps in C (`hot_path.c`), where this machine can compile them.

Compiled once for each interpreter, with the machine's own compiler, as Triton does with what it needs, and kept in the
user's cache. Where that is not possible the same is done in Python, at about twice the cost.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any, cast

from .api import DeviceMarks, F
from .ranges import NamedRange
from .step import Step, StepFigures, StepKeeper

SWITCH = "STEPSCOPE_NATIVE_PROBE"
"""Environment variable; "0": do it in Python."""
EVENTS_SWITCH = "STEPSCOPE_NATIVE_EVENTS"
"""Environment variable; "0": the `cuda` device records its events in Python, and all else stays in C."""
SOURCE = Path(__file__).with_name("hot_path.c")
_HEADERS = ("notes", "timed_call", "step_times", "event_pool", "stamp_lane")
_SOURCES = (SOURCE, *(SOURCE.with_name(f"{name}.h") for name in _HEADERS))
MODULE = "stepscope_native.hot_path"
"""What it is called among the modules of the process, where an engine may have a `hot_path` of its own. All copies of
this package in a process call it so: then they share it, and its types are made once.
"""
COMPILE_TIMEOUT_S = 60
ROOT = 0
_DIGEST_BYTES = hashlib.sha256().digest_size
_FLAGS = ("-O2", "-fno-plt", "-falign-functions=64", "-shared", "-fPIC")
"""Behind a stage of the step the code is cold: functions begin cache lines, and calls of Python need no stub."""


class NativeCalls:
    """The timed functions of one probe, as TimedCalls has them. `module`: see `native`; `noted`: its list of notes."""

    def __init__(self, module: Any, noted: Any, marks: DeviceMarks | None) -> None:
        self._timed, self._noted = module.timed, noted
        self._mark = None if marks is None else marks.mark
        self._scopes: dict[tuple[str, str], NamedRange] = {}  # what may be noted is kept for good, so one for each name

    def make(self, scope: NamedRange, function: F) -> F:
        """See TimedCalls.make."""
        scope = self._scopes.setdefault((scope.name, scope.kind), scope)
        return cast(F, self._timed(self._noted, function, scope, self._mark if scope.kind == "phase" else None))

    def be_silent(self, silent: bool) -> None:
        """See TimedCalls.be_silent; what is left is one question in each call."""
        self._noted.silent = silent


def steps_of(keeper: StepKeeper) -> Callable[[int], Step]:
    """What makes the steps of a probe whose notes are in C: their times are kept there, too."""
    module = native()
    assert module is not None
    return cast(Callable[[int], Step], module.steps(_step_type(module), keeper))


@cache
def _step_type(module: Any) -> type:
    """Python's part of a step has no attributes of its own here: what it sets is in the one of C."""
    return type("NativeStep", (module.Step, StepFigures), {"__slots__": (), "__doc__": StepFigures.__doc__})


def native_events() -> Any | None:
    """The module, where events are recorded in C."""
    return None if os.environ.get(EVENTS_SWITCH) == "0" else native()


def native() -> Any | None:
    """The module, compiled if it has not been; None where it cannot be, or must not."""
    return look()[0]


@cache
def look() -> tuple[Any | None, str]:
    """The module, or None and why."""
    if os.environ.get(SWITCH) == "0":
        return None, f"{SWITCH} is 0"
    if sys.platform != "linux" or platform.python_implementation() != "CPython":
        return None, "it is for CPython on Linux"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None, "it is for an interpreter with its lock, which loading it would turn on"
    try:
        return _load(_compiled()), ""
    except subprocess.CalledProcessError as error:
        return None, f"{error.cmd[0]} failed: {_complaint(error.stderr.decode(errors='replace')) or error.returncode}"
    except (OSError, ImportError, RuntimeError, subprocess.TimeoutExpired) as error:  # RuntimeError: no home
        return None, str(error)


def _compiled() -> Path:
    """The library's file. Raises OSError and SubprocessError where it is not there and cannot be made."""
    texts = (source.read_text(encoding="utf-8") for source in _SOURCES)
    abi = str(sysconfig.get_config_var("SOABI"))  # homes are shared by machines
    about = "\0".join((*texts, sys.version, abi, sysconfig.get_path("include"), *_FLAGS))
    digest = hashlib.sha256(about.encode(errors="surrogateescape")).hexdigest()
    folder = _cache() / "stepscope"
    library = folder / f"hot_path-{digest[:16]}.so"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _is_others(folder):
        raise PermissionError(f"others may write into {folder}; set XDG_CACHE_HOME to a folder of yours")
    if not _is_whole(library):
        with tempfile.TemporaryDirectory(dir=folder) as work:
            made = Path(work) / library.name
            _compile(made)
            _seal(made)  # before it has its name
            os.replace(made, library)  # others may be about it as well
    return library


def _cache() -> Path:
    """The user's. A relative XDG_CACHE_HOME does not count, as its specification says. Raises RuntimeError: no home."""
    asked = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return asked if asked.is_absolute() else Path.home() / ".cache"


def _is_others(folder: Path) -> bool:
    """Whether somebody else decides what lies there: it would be run as the user."""
    about = folder.stat()
    return about.st_uid not in (ROOT, os.geteuid()) or bool(about.st_mode & stat.S_IWOTH)


def _seal(library: Path) -> None:
    """Write the digest of a library's content behind it, where the loader does not look, and force both to disk."""
    with library.open("r+b") as file:
        file.write(hashlib.sha256(file.read()).digest())
        file.flush()
        os.fsync(file.fileno())


def _is_whole(library: Path) -> bool:
    """Whether it is there, and is what was compiled. Loading a library that a crash, a full disk or a copy has cut off
    may end the process.
    """
    try:
        content = library.read_bytes()
    except FileNotFoundError:
        return False
    return hashlib.sha256(content[:-_DIGEST_BYTES]).digest() == content[-_DIGEST_BYTES:]


def _compile(target: Path) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    command = [*compiler.split(), *_FLAGS, f"-I{sysconfig.get_path('include')}", str(SOURCE), "-o", str(target)]
    plain = {**os.environ, "LC_ALL": "C"}  # what it complains of is told in English, as all else is
    subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_TIMEOUT_S, env=plain)


def _complaint(said: str) -> str:
    """The line with the error; the first ones may tell where it was included from."""
    lines = said.strip().splitlines() or [""]
    return next((line for line in lines if "error:" in line), lines[0])


def _load(library: Path) -> Any:
    """Raises ImportError for what is no library of this interpreter, as a wrong compiler makes it; that is not kept."""
    loader = ExtensionFileLoader(MODULE, str(library))
    spec = importlib.util.spec_from_file_location(MODULE, library, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
    except ImportError:
        with suppress(OSError):
            library.unlink()
        raise
    loader.exec_module(module)
    return module
