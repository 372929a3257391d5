"""The two arms of a gate: which code, which interpreter, which spec, which switches.

    checkout:DIR | checkout:REVISION   another checkout; a revision of the repository here is unpacked from it
    python:EXE                         another interpreter, with the stepscope that it has installed, else with ours
    spec:FILE                          another spec
    set:KEY=VALUE                      a switch

Words may be given together: `--head checkout:v2 --head set:commit_order=last`. What an arm does not name is as here.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ..axes import parse_params

KINDS = ("checkout", "python", "spec", "set")
OURS = Path(__file__).resolve().parents[2]
PACKAGE = (__package__ or "stepscope").partition(".")[0]
_LANDMARK = Path("experiments/session.py")


@dataclass(frozen=True, slots=True)
class Arm:
    """`words`: as the user gave them. `checkout`: a folder or a revision, None: the code that runs here."""

    name: str
    words: tuple[str, ...] = ()
    checkout: str | None = None
    python: str | None = None
    spec: Path | None = None
    switches: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """For people: its words, or what it is without any."""
        return " ".join(self.words) or "as installed"


@dataclass(frozen=True, slots=True)
class Program:
    """How the process of an arm is started: interpreter, and the folder that holds the package; None: its own.

    commit   of the package, see `commit_of`; None where that is not known
    """

    python: str
    package: Path | None
    view: Path | None
    commit: str | None = None

    def environment(self) -> dict[str, str]:
        """Of the process: the package's folder comes before all others."""
        environ = dict(os.environ)
        if self.view is None:
            environ.pop("PYTHONPATH", None)
        else:
            before = environ.get("PYTHONPATH")
            environ["PYTHONPATH"] = os.pathsep.join([str(self.view), *([before] if before else [])])
        return environ


def parse_arm(name: str, words: Sequence[str]) -> Arm:
    """The arm that `words` describe. UsageError names the word."""
    found: dict[str, str] = {}
    switches: list[str] = []
    for word in words:
        kind, colon, value = word.partition(":")
        if not colon or kind not in KINDS or not value:
            raise UsageError(f"--{name} {word}: expected {', '.join(f'{kind}:...' for kind in KINDS)}")
        if kind == "set":
            switches.append(value)
        elif kind in found:
            raise UsageError(f"--{name} {word}: {kind} is given twice; keep one")
        else:
            found[kind] = value
    spec = Path(found["spec"]) if "spec" in found else None
    return Arm(name, tuple(words), found.get("checkout"), found.get("python"), spec, _switches(name, switches))


def _switches(name: str, texts: Sequence[str]) -> dict[str, Any]:
    try:
        axes = parse_params(texts)
    except UsageError as error:
        raise UsageError(str(error).replace("--param ", f"--{name} set:", 1)) from error
    many = [path for path, values in axes.items() if len(values) > 1]
    if many:
        raise UsageError(f"--{name} set:{many[0]}: an arm has one value of it; points are made with --param")
    return {path: values[0] for path, values in axes.items()}


def program(arm: Arm, scratch: Path) -> Program:
    """Make the arm's package importable below `scratch` (an empty folder of this arm)."""
    python = sys.executable if arm.python is None else _interpreter(arm)
    if arm.checkout is not None:
        package, commit = _checkout(arm.name, arm.checkout, scratch)
    elif arm.python is not None and _has_own_package(python, scratch):
        return Program(python, None, None)
    else:
        package, commit = OURS, _our_commit()
    view = scratch / "view"
    view.mkdir()
    (view / PACKAGE).symlink_to(package, target_is_directory=True)
    return Program(python, package, view, commit)


def commit_of(folder: Path) -> str | None:
    """What `folder`, the top of a work tree of git, has checked out, "-dirty" where files differ; None elsewhere."""
    top, commit = (_git(folder, "rev-parse", word) for word in ("--show-toplevel", "HEAD"))
    if top is None or commit is None or Path(os.fsdecode(top.rstrip(b"\n"))).resolve() != folder.resolve():
        return None
    changed = _git(folder, "status", "--porcelain")
    return None if changed is None else commit.decode().strip() + ("-dirty" if changed.strip() else "")


def _interpreter(arm: Arm) -> str:
    found = shutil.which(str(arm.python))
    if found is None:
        raise UsageError(f"--{arm.name} python:{arm.python}: is no program; give the path of a Python interpreter")
    return str(Path(found).absolute())  # not resolved: in a virtual environment it is a link, and must stay one


def _has_own_package(python: str, scratch: Path) -> bool:
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    asked = subprocess.run([python, "-c", f"import {PACKAGE}"], cwd=scratch, env=environ, capture_output=True)
    return asked.returncode == 0


@cache
def _our_commit() -> str | None:
    return commit_of(OURS)


def _checkout(name: str, value: str, scratch: Path) -> tuple[Path, str | None]:
    """The folder, and its commit."""
    folder = Path(value)
    commit = commit_of(folder) if folder.is_dir() else None
    if not folder.is_dir():
        folder, commit = _unpacked(name, value, scratch / "checkout")
    if not (folder / _LANDMARK).is_file():
        raise UsageError(f"--{name} checkout:{value}: holds no {_LANDMARK}; give a checkout of {PACKAGE}")
    return folder.resolve(), commit


def _unpacked(name: str, revision: str, folder: Path) -> tuple[Path, str]:
    """The tree of `revision`, from the repository of the working folder, else from the one that runs here."""
    for repository in (Path.cwd(), OURS):
        commit = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        packed = _git(repository, "archive", "--format=tar", commit.decode().strip()) if commit else None
        if commit and packed:
            folder.mkdir()
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(folder, **_checked())
            return folder, commit.decode().strip()
    raise UsageError(f"--{name} checkout:{revision}: is neither a folder nor a revision of the repository here")


def _checked() -> dict[str, Any]:
    """How archives are unpacked; Python before 3.10.12 and 3.11.4 has no filters."""
    return {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def _git(repository: Path, *arguments: str) -> bytes | None:
    """The output; None where git is not there or says no."""
    try:
        done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
