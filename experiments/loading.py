"""From a YAML or TOML file to a plain tree: duplicates, foreign types and non-finite numbers are refused by name."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ..errors import UsageError

Tree = dict[str, Any]
_LARGEST = 2**63 - 1
_MOST_VALUES = 4_000_000
"""Of a file, aliases written out: a few lines of YAML can stand for more than any machine holds."""
_KINDS = {type(None): "nothing", str: "a text", list: "a list"}


class _Loader(yaml.SafeLoader):
    """YAML without its traps: a key given twice wins silently, `off` is a boolean, `1e3` is a text, `8:64` is 544,
    `2020-01-01` is a date."""


_OWN = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag not in _OWN]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(  # without the numbers of base 60 that YAML 1.1 writes with colons
    "tag:yaml.org,2002:int",
    re.compile(r"^(?:[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|false|False)$"), list("tTfF"))
_Loader.add_implicit_resolver(  # YAML 1.1 reads `1e3` as text, for want of a point
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Tree:
    tree: Tree = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if key_node.tag == "tag:yaml.org,2002:merge":
            raise UsageError(f"line {line}: key '<<' is not taken; write the merged fields out")
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, Hashable) or not isinstance(key, str):
            raise UsageError(f"line {line}: key {key!r} is not a text; quote it")
        if key in tree:
            raise UsageError(f"line {line}: key {key!r} is given twice; keep one")
        tree[key] = loader.construct_object(value_node, deep=True)
    return tree


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def _parse_toml(text: str) -> Tree:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"is not TOML: {error}") from error
    except (ValueError, RecursionError) as error:
        raise _endless(error) from error


def _parse_yaml(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise UsageError(f"line {line}: is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"is not YAML: {' '.join(str(error).split())}") from error
    except (ValueError, RecursionError) as error:
        raise _endless(error) from error


def _endless(error: Exception) -> UsageError:
    """For what the parsers do not refuse in words of their own: brackets, or a number, without end."""
    deep = isinstance(error, RecursionError)
    return UsageError("is nested too deep" if deep else f"holds what is no value: {str(error).split(';')[0]}")


def parse_value(text: str) -> Any:
    """One YAML scalar or flow list, as on a command line: `8`, `full`, `[1, 2]`."""
    value = _parse_yaml(text)
    if _is_foreign(value):
        raise UsageError(_foreign(value))
    return value


def refuse_foreign(value: object, where: str) -> None:
    """Raise UsageError for the first value below `value` that no field takes; `where` is the dotted path to it.

    NaN and infinity, whole numbers of more than 64 bits (63 and a sign: those of tables), dates, sets and bytes.
    """
    if isinstance(value, Mapping):
        for key, below in value.items():
            refuse_foreign(below, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for index, below in enumerate(value):
            refuse_foreign(below, f"{where}[{index}]")
    elif _is_foreign(value):
        raise UsageError(f"{where}: {_foreign(value)}")


def _num_values(value: object, known: dict[int, int]) -> int:
    """Values in `value` with aliases written out; what stands in many places is gone through once (`known`, by id)."""
    if not isinstance(value, Mapping | list | tuple):
        return 1
    if id(value) not in known:
        below = value.values() if isinstance(value, Mapping) else value
        known[id(value)] = 1 + sum(_num_values(one, known) for one in below)
    return known[id(value)]


def _is_foreign(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, int):
        return abs(value) > _LARGEST
    return not (value is None or isinstance(value, str | Mapping | list | tuple))


def _foreign(value: object) -> str:
    if isinstance(value, float):
        return f"{value} is not a finite number"
    if isinstance(value, int):
        return "the number has more than 64 bits; no field takes it"
    return f"{value!r} is a {type(value).__name__}, which no field takes; quote it if it is a text"


def read_text(path: Path) -> str:
    """The file's text; a missing, unreadable or binary file is a UsageError that names it."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; check the path") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not a UTF-8 text file; give one of YAML, TOML or JSON") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give a file that can") from error


def load_tree(path: Path) -> Tree:
    """Parse `path` (.toml, else YAML). Errors are one line that begins with the path."""
    text = read_text(path)
    try:
        tree = _parse_toml(text) if path.suffix == ".toml" else _parse_yaml(text)
        if not isinstance(tree, dict):
            raise UsageError(f"holds {_KINDS.get(type(tree), 'a value')}, expected a mapping of fields (key: value)")
        if _num_values(tree, {}) > _MOST_VALUES:
            raise UsageError(f"its aliases stand for more than {_MOST_VALUES} values; write out what is meant")
        refuse_foreign(tree, "")
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return tree
