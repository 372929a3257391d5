"""Writing files so that a kill leaves the old one or the new one, never half of one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import UsageError

SYNCS_AT_ONCE = 8


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError from inside names `path`: the system says of what it cannot open, not of what it cannot write."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_atomically(path: Path, text: str) -> None:
    """Write `text` to a temporary file beside `path`, force it to disk, and rename it over `path`.

    A link stays one: what it leads to is replaced. A device or a pipe (/dev/null, /dev/stdout) is written to as it is.
    """
    if _is_stream(path):
        with naming(path):
            path.write_text(text, encoding="utf-8")
        return
    asked, path = path, Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name[:40]}.{os.getpid()}.tmp")  # a name may be as long as names can be
    try:
        with naming(path), temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):  # where nothing can be written there is nothing to remove
            temporary.unlink(missing_ok=True)
        if error.filename == str(temporary):  # nobody asked for a file of that name
            error.filename = str(asked)
        raise
    sync_folder(path.parent)


def _is_stream(path: Path) -> bool:
    """Whether nothing may be put in the place of `path`: root could, and /dev/null would be a file from then on."""
    above = path.absolute().parts[1:3]
    named = bool(above) and (above[0] == "proc" or (above[0] == "dev" and above[1:] != ("shm",)))
    return named or (path.exists() and not path.is_file() and not path.is_dir())


def publish_folder(temporary: Path, final: Path, trash: Path) -> None:
    """Force all of `temporary` to disk, then rename it to `final`; what was there goes to the folder `trash`.

    Each is one rename, so a kill between them leaves the old one aside and nothing half. `trash` is on the same disk;
    what is left in it may be deleted at any time. From another disk `temporary` is copied first.
    """
    temporary = _on_disk_of(temporary, final.parent, trash)
    _sync_all(temporary)
    aside = trash / f"{final.name}.{os.getpid()}.old"
    if final.exists():
        trash.mkdir(parents=True, exist_ok=True)
        _remove(aside)
        final.rename(aside)
    temporary.replace(final)
    sync_folder(final.parent)
    _remove(aside)


def _sync_all(folder: Path) -> None:
    """Force everything below `folder` to disk, side by side: a disk takes many files in little more time than one."""
    paths = [folder, *folder.rglob("*")]
    with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:
        for _ in pool.map(_sync, paths):
            pass


def _sync(path: Path) -> None:
    if path.is_dir():
        sync_folder(path)
    elif path.is_file():
        with path.open("rb") as handle:
            os.fsync(handle.fileno())


def _on_disk_of(temporary: Path, target: Path, trash: Path) -> Path:
    if temporary.stat().st_dev == target.stat().st_dev:
        return temporary
    copy = trash / f"{temporary.name}.{os.getpid()}.copy"
    _remove(copy)
    shutil.copytree(temporary, copy)
    shutil.rmtree(temporary, ignore_errors=True)
    return copy


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable, where the system can open folders."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_writable(folder: Path) -> Path:
    """Create `folder` and prove by a file that it takes writes. Raises UsageError that names what stands in the way."""
    probe = folder / f".writable.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written to ({error.strerror}); choose another folder with --out"
        ) from error
    return folder
