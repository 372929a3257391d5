"""Copies of the package under other names: as it is, or with every call to the probe taken out of its source, which is
the truth to measure against.

`probe.timed(name, function)` and `probe.timed_phase` give way to the function; `with probe.range(...)`, also where the
range was kept in a name, `with step.phase(...)` and `with probe.step(...)` to their bodies; a late step to None;
figures that are noted for the probe to nothing. The copies lie in a temporary folder; the checkout is not touched.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("analysis", "experiments", "instrumentation", "runner", "workloads")
STRIPPED = ("runner", "experiments/loop.py")
WRAPPERS = {"timed", "timed_phase"}
PROBE_CALLS = {"range", "ranged", "phase", "step"}
FIGURES = {"note", "note_later"}
LATE = "late"
"""Of a step, and where what it gave is kept: a method without arguments, and an attribute."""


class _Strip(ast.NodeTransformer):
    """`kept` are the names of variables and attributes that hold a range of the probe."""

    def __init__(self, tree: ast.Module) -> None:
        self.taken_out = 0
        self._kept = {name for node in ast.walk(tree) if isinstance(node, ast.Assign) for name in _kept_ranges(node)}

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        kept = [item for item in node.items if not self._is_scope(item.context_expr)]
        if len(kept) == len(node.items):
            return node
        self.taken_out += 1
        if kept:
            node.items = kept
            return node
        names = [item.optional_vars for item in node.items if isinstance(item.optional_vars, ast.Name)]
        unbound: list[ast.stmt] = [ast.Assign([name], ast.Constant(None)) for name in names]
        return unbound + node.body

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _name(node.func) == LATE and not node.args:
            self.taken_out += 1
            return ast.Constant(None)
        if _name(node.func) not in WRAPPERS or not _is_named(node):
            return node
        self.taken_out += 1
        return node.args[1]

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.value, ast.Call) and _name(node.value.func) in FIGURES):
            return node
        self.taken_out += 1
        return ast.Pass()

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        if isinstance(node.test, ast.Attribute) and node.test.attr == "keeps_figures":
            self.taken_out += 1
            return None
        return node

    def _is_scope(self, node: ast.expr) -> bool:
        return _is_probe_call(node) or _name(node) in self._kept or _name(node) == LATE


def _is_probe_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _name(node.func) in PROBE_CALLS


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_named(node: ast.Call) -> bool:
    return bool(node.args) and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)


def _kept_ranges(node: ast.Assign) -> list[str]:
    """Names that an assignment gives to ranges of the probe, as in `self._a, self._b = probe.range("a"), 7`."""
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    names: list[str] = []
    for target in node.targets:
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        pairs = zip(targets, values, strict=False)
        names += [
            _name(at) for at, value in pairs
            if isinstance(value, ast.Call) and _name(value.func) == "range" and _is_named(value)
        ]  # fmt: skip
    return names


def make_copy(folder: Path, name: str, root: Path, *, strip: bool) -> int:
    """Write the package of the checkout `root` into `folder` as `name`. Returns how many calls were taken out."""
    package = folder / name
    package.mkdir()
    for part in FOLDERS:
        shutil.copytree(root / part, package / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("__init__.py", "errors.py"):
        shutil.copy(root / file, package / file)
    return _take_out_calls(package) if strip else 0


def _take_out_calls(package: Path) -> int:
    taken_out = 0
    for below in STRIPPED:
        target = package / below
        for path in [target] if target.is_file() else sorted(target.rglob("*.py")):
            parsed = ast.parse(path.read_text())
            strip = _Strip(parsed)
            tree = ast.fix_missing_locations(strip.visit(parsed))
            if strip.taken_out:
                path.write_text(ast.unparse(tree) + "\n")
                taken_out += strip.taken_out
    return taken_out
