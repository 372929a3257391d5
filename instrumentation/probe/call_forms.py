"""The timed calls of a measured clock, written for the parameters that a function has.

`*values` packs and unpacks a tuple in every call, which is a quarter of what the note costs. So each list of parameters
gets a function of its own, made from a text, as `namedtuple` makes its `__new__`: it is called as the function is.

A call notes one tuple: (scope, start_ns, end_ns), the longer one of `borders` where there is more to say. Its twin
notes nothing; `nonlocal` gives it the same cells, so that the one's code can stand in for the other's. What all calls
need lies in cells that they share.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from functools import cache
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType, MethodType
from typing import Any

Function = Callable[..., Any]
Parameters = tuple[tuple[str, ...], int]
"""Names of parameters, and how many of them, from the first, are given by position alone."""
Twins = tuple[Function, Function]
"""A timed function, and the same without a note. They close over the same variables."""

_PLAIN = """
def form(append, now, mark):
    def wrap(function, scope):
        def call(PARAMETERS):
            start_ns = now()
            try:
                result = function(VALUES)
            except BaseException:
                append((scope, start_ns, now(), None, None, False))
                raise
            append((scope, start_ns, now()))
            return result

        def silent(PARAMETERS):
            nonlocal append, now, scope
            return function(VALUES)

        return call, silent
    return wrap
"""

_MARKED = """
def form(append, now, mark):
    def wrap(function, scope):
        def call(PARAMETERS):
            start_ns = now()
            begin = mark()
            try:
                result = function(VALUES)
            except BaseException:
                append((scope, start_ns, now(), begin, None, False))
                raise
            end = mark()
            append((scope, start_ns, now(), begin, end, True))
            return result

        def silent(PARAMETERS):
            nonlocal append, mark, now, scope
            return function(VALUES)

        return call, silent
    return wrap
"""
"""A phase with a device mark at either border. The host end is read after the mark: what that costs is the phase's."""

_TEXTS = {"plain": _PLAIN, "marked": _MARKED}
_OWN_NAMES = frozenset(("append", "begin", "end", "function", "mark", "now", "result", "scope", "start_ns"))
"""What the texts call their own: a function with such a parameter takes whatever comes."""


class Forms:
    """The forms of one probe: `append` of its list, `now` of its clock, `mark` of its device, for phases that take any.

    A form is made once for each list of parameters, so that all calls of it share the cells of these three.
    """

    def __init__(self, append: Callable[[Any], None], now: Callable[[], int], mark: Callable[[], Any] | None) -> None:
        self._parts = append, now, mark
        self._made: dict[tuple[str, Parameters | None], Callable[[Function, object], Twins]] = {}

    def wrap(self, function: Function, scope: object, *, marked: bool) -> Twins:
        """`function` with the note that each of its calls leaves behind."""
        kind = "marked" if marked else "plain", _parameters(function)
        if kind not in self._made:
            module: dict[str, Any] = {}
            exec(_code(*kind), module)
            self._made[kind] = module["form"](*self._parts)
        return self._made[kind](function, scope)


def _parameters(function: Function) -> Parameters | None:
    """What a call gives, where that is always the same number of values; None: whatever comes."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType) or plain.__defaults__:
        return None
    code = plain.__code__
    names = code.co_varnames[: code.co_argcount]
    if code.co_flags & (CO_VARARGS | CO_VARKEYWORDS) or code.co_kwonlyargcount or not _OWN_NAMES.isdisjoint(names):
        return None
    bound = isinstance(function, MethodType)
    return names[bound:], max(0, code.co_posonlyargcount - bound)


@cache
def _code(kind: str, parameters: Parameters | None) -> CodeType:
    """The module's code; a traceback shows its lines."""
    values = called = "*values, **names"
    if parameters is not None:
        names, positional = parameters
        values = ", ".join(names)
        called = ", ".join((*names[:positional], *["/"] * (positional > 0), *names[positional:]))
    source = _TEXTS[kind].replace("PARAMETERS", called).replace("VALUES", values)
    name = f"<stepscope: {kind} call of ({called})>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    return compile(source, name, "exec")
