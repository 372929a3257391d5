"""`perf diff`'s work: two recordings, or a recording and a capture, side by side. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..analysis.compare import Comparison, compare
from ..errors import Incomparable
from ..instrumentation.recording.reader import Recording
from ..reports import Format, render_comparison
from .reporting import recording_at, write_page

DISAGREE = 1
"""Exit code where two views of one run differ and somebody asked."""


@dataclass(frozen=True, slots=True)
class Diffed:
    """What to print, and whether the two agree (None: not judged)."""

    text: str
    agrees: bool | None


def diff(a: Path, b: Path, format_: Format, output: Path | None = None) -> Diffed:
    """Compare what two paths hold. Raises UsageError for a path without a recording, Incomparable (exit 5) for two
    that must not be compared."""
    try:
        found = compare(recording_at(a), recording_at(b))
    except Incomparable as error:
        raise Incomparable(f"{a} and {b}: {error}") from error
    return _told(found, f"{_name(a)} and {_name(b)}", format_, output)


def agreement(a: Path, b: Path, found: Diffed) -> int:
    """The exit code for who asked whether they agree. Raises Incomparable where nothing was judged: that is no yes."""
    if found.agrees is None:
        raise Incomparable(
            f"{a} and {b}: --agree: nothing was judged, which takes two views of one run: a recording and its capture"
        )
    return 0 if found.agrees else DISAGREE


def diff_recordings(a: Recording, b: Recording, name: str) -> Diffed:
    """The same of two recordings at hand, as text."""
    return _told(compare(a, b), name, "text", None)


def _told(found: Comparison, name: str, format_: Format, output: Path | None) -> Diffed:
    text = render_comparison(found, format_, name=name)
    if output is not None:
        write_page(output, text)
        text = f"{output}\n"
    return Diffed(text, found.agrees)


def _name(path: Path) -> str:
    return path.absolute().name
