"""What leaves this machine carries no home folder, no user's name in a path, and nothing of the environment.

A gate's result is published: in a pull request, a data base, an artifact. Arms are named by folders, and a failed arm's
last words can hold anything.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...analysis.gate.matching import ALL
from ...analysis.gate.result import GateResult
from .characters import distinct, readable

_HOMES = re.compile(r"(?:/(?:[\w.-]+/)*?(?:home|Users)/[^/\s:'\"]+|[A-Za-z]:\\Users\\[^\\\s:'\"]+|/root)(?![\w.-])")
_ASSIGNED = re.compile(r"\b([A-Z][A-Z0-9_]{2,})=(?:'[^']*'|\"[^\"]*\"|\S+)")
_SECRET_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_LEAST_SECRET = 6
"""Characters below which a value of the environment is too common a word to be looked for."""


@dataclass(frozen=True, slots=True)
class Privacy:
    """What is never shown.

    home      this user's home folder, empty where there is none
    user      the user's name: a folder of that name is not shown
    secrets   values that appear nowhere
    """

    home: str = ""
    user: str = ""
    secrets: tuple[str, ...] = ()

    @classmethod
    def of(cls, environ: Mapping[str, str], home: str = "") -> Privacy:
        """From an environment: values of variables that are named like secrets, the longest first."""
        user = environ.get("USER") or environ.get("LOGNAME") or environ.get("USERNAME") or ""
        found = {
            value for name, value in environ.items()
            if len(value.strip()) >= _LEAST_SECRET and _SECRET_NAMES.search(name)
        }  # fmt: skip
        return cls(home or environ.get("HOME", ""), user, tuple(sorted(found, key=len, reverse=True)))

    def path(self, text: str) -> str:
        """`text` with homes as "~" and secrets as "***"; a name stays a name otherwise."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        if len(self.home) > 1:
            text = re.sub(re.escape(self.home.rstrip("/\\")) + r"(?![\w.-])", "~", text)
        text = _HOMES.sub("~", text)
        if self.user:
            text = re.sub(rf"(?<=[/\\]){re.escape(self.user)}(?=[/\\]|$)", "USER", text)
        return text

    def words(self, text: str) -> str:
        """As `path`, and without what is assigned to a variable: "API_KEY=abc" → "API_KEY=***"."""
        return readable(_ASSIGNED.sub(r"\1=***", self.path(text)))


def publishable(result: GateResult, privacy: Privacy) -> GateResult:
    """`result` with readable names and without what is private. Points keep one name each, whatever becomes of it."""
    suite = result.suite
    points = _names([point.point for point in suite.points] + [point for point, _ in result.levels]
        + [one.point for one in result.beside], privacy.path)
    metrics = _names(
        [p.metric for p in suite.points] + [metric for _, metric in result.levels] + list(suite.geomeans)
        + [one.metric for one in result.beside], privacy.path
    )
    verdicts = tuple(
        dataclasses.replace(
            one, point=points[one.point], metric=metrics[one.metric], detail=privacy.words(one.detail)
        )
        for one in suite.points
    )
    clean = dataclasses.replace(
        suite, points=verdicts, geomeans={metrics[metric]: found for metric, found in suite.geomeans.items()},
        holm_p={(points[p], metrics[m]): value for (p, m), value in suite.holm_p.items()},
    )  # fmt: skip
    return dataclasses.replace(
        result, suite=clean, base=privacy.words(result.base), head=privacy.words(result.head),
        notes=tuple(privacy.words(note) for note in result.notes),
        machine={readable(key): privacy.words(v) if isinstance(v, str) else v for key, v in result.machine.items()},
        levels={(points[p], metrics[m]): levels for (p, m), levels in result.levels.items()},
        beside=tuple(
            dataclasses.replace(one, point=points[one.point], metric=metrics[one.metric]) for one in result.beside
        ),
        commit=None if result.commit is None else privacy.words(result.commit),
    )  # fmt: skip


def _names(texts: list[str], hide: Callable[[str], str]) -> dict[str, str]:
    hidden = {text: hide(text) for text in texts}
    shown = distinct(hidden.values())
    names: dict[str, str] = {ALL: ALL}
    taken = {ALL}
    for text in hidden:
        name = shown[hidden[text]]
        while name in taken and names.get(text) != name:  # two homes' points of one name
            name += "'"
        names[text] = name
        taken.add(name)
    return names
