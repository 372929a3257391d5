"""What gets installed: the list of packages, the data files, the wheel, and what an import drags in."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("analysis", "cli", "experiments", "instrumentation", "reports", "runner", "workloads")
SUFFIXES = (".py", ".json", ".yaml", ".html", ".css", ".js", ".md", ".txt", ".c", ".h")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def shipped() -> list[str]:
    """Every file of the tree that must be in the wheel, as its path there."""
    files = [*ROOT.glob("*.py"), ROOT / "py.typed"]
    for floor in FLOORS:
        files += [path for path in (ROOT / floor).rglob("*") if path.suffix in SUFFIXES and path.is_file()]
    return sorted(f"stepscope/{path.relative_to(ROOT).as_posix()}" for path in files)


def test_the_list_of_packages_equals_the_tree() -> None:
    folders = {path.parent for floor in FLOORS for path in (ROOT / floor).rglob("*.py")}
    tree = {"stepscope", *("stepscope." + ".".join(folder.relative_to(ROOT).parts) for folder in folders)}
    assert sorted(project()["tool"]["setuptools"]["packages"]) == sorted(tree)


def test_every_package_has_an_init() -> None:
    for package in project()["tool"]["setuptools"]["packages"]:
        folder = ROOT.joinpath(*package.split(".")[1:])
        assert (folder / "__init__.py").is_file(), package


def test_the_versions_agree() -> None:
    text = (ROOT / "__init__.py").read_text(encoding="utf-8")
    assert f'__version__ = "{project()["project"]["version"]}"' in text


def test_constraints_pin_what_the_project_needs() -> None:
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    wanted = [re.split(r"[>=;\[ ]", need)[0].lower() for need in project()["project"]["dependencies"]]
    assert [name for name in wanted if name not in pinned and name != "tomli"] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of a copy of the tree (a build writes build/ and egg-info beside its sources)."""
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed, so no wheel can be built offline")
    source = tmp_path_factory.mktemp("source") / "checkout"
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for floor in (*FLOORS, "docs"):
        shutil.copytree(ROOT / floor, source / floor, ignore=ignore)
    for path in (*ROOT.glob("*.py"), *(ROOT / n for n in ("py.typed", "pyproject.toml", "README.md", "LICENSE"))):
        shutil.copy(path, source / path.name)
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(out),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl"))


def test_the_wheel_holds_exactly_the_package(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert sorted(name for name in names if ".dist-info/" not in name) == shipped()
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stdout.strip()) == (0, f"stepscope {project()['project']['version']}")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import stepscope", ("torch", "pandas", "numpy", "typer")),
        ("from stepscope.cli.main import main; assert main(['--help']) == 0", ("torch", "pandas", "numpy", "rich")),
        ("from stepscope.cli.main import main; assert main(['report', 'nowhere']) == 2", ("torch",)),
        ("import stepscope.analysis, stepscope.reports, stepscope.instrumentation.recording", ("torch",)),
    ],
)
def test_what_an_import_does_not_drag_in(code: str, absent: tuple[str, ...]) -> None:
    check = f"import sys; {code}; print('dragged', sorted({set(absent)!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["dragged []"], done.stdout + done.stderr
