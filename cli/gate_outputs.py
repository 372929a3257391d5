"""`perf gate --write FORMAT[=FILE]`: what a verdict is written as, and where. Checked before anything is measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..analysis.gate.result import GateResult

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"

Write = Annotated[
    list[str] | None,
    typer.Option(
        "--write", metavar="FORMAT[=FILE]",
        help="Write the verdict as json, text, markdown, html, junit, github-summary, annotations, bmf, gab,"
        " openmetrics, prometheus or pytorch-v3. Repeatable.",
    ),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Output:
    """One format and where it goes: None is its own place (stdout, or the job's summary)."""

    format: str
    path: Path | None


Outputs = tuple[Output, ...]


def parse_outputs(wanted: Sequence[str]) -> Outputs:
    """The outputs that `wanted` names. UsageError for what could not be written once everything is measured."""
    from ..reports.gate.formats import FORMATS

    found = []
    for text in wanted:
        name, _, file = text.partition("=")
        if name not in FORMATS:
            raise _refused(text, f"there is no format {name!r}; choose from {', '.join(FORMATS)}")
        if not file and FORMATS[name].needs_file:
            raise _refused(text, f"needs a file: --write {name}=FILE")
        found.append(Output(name, Path(file) if file else None))
    _check(found, os.environ)
    return tuple(found)


def _check(outputs: Sequence[Output], environ: Mapping[str, str]) -> None:
    paths = [output.path.absolute() for output in outputs if output.path is not None]
    for path in paths:
        if paths.count(path) > 1:
            raise _refused(str(path), "two formats would overwrite each other; give each a file of its own")
        if path.is_dir() or not path.parent.is_dir():
            what = "is a folder" if path.is_dir() else "lies in a folder that does not exist"
            raise _refused(str(path), f"{what}; name a file in an existing folder")
    if not environ.get(SUMMARY_VARIABLE) and Output("github-summary", None) in outputs:
        raise _refused("github-summary", f"${SUMMARY_VARIABLE} is not set here; give a file")


def _refused(text: str, why: str) -> Exception:
    from ..errors import UsageError

    return UsageError(f"--write {text}: {why}")


def write_outputs(result: GateResult, wanted: Outputs, environ: Mapping[str, str] | None = None) -> None:
    """Write `result` as all that is wanted, without what is private. Every format is tried before an error goes on."""
    from ..experiments.files import write_atomically
    from ..reports.gate.formats import FORMATS
    from ..reports.gate.privacy import Privacy, publishable

    environ = os.environ if environ is None else environ
    shown = publishable(result, Privacy.of(environ, str(Path.home())))
    failed: list[OSError] = []
    for output in wanted:
        try:
            if output.format == "github-summary":
                _append_summary(shown, environ)
            elif output.path is None:
                typer.echo(FORMATS[output.format].write(shown), nl=False)
            if output.path is not None:
                write_atomically(output.path, FORMATS[output.format].write(shown))
        except OSError as error:
            failed.append(error)
    if failed:
        raise failed[0]


def _append_summary(result: GateResult, environ: Mapping[str, str]) -> None:
    """Add to what the step has said already, within the limit that GitHub has for all of it."""
    from ..experiments.files import naming
    from ..reports.gate.summary import LIMIT_BYTES, render_summary

    name = environ.get(SUMMARY_VARIABLE)
    if not name:
        return
    path = Path(name)
    said = path.stat().st_size if path.exists() else 0
    text = render_summary(result, max(0, LIMIT_BYTES - said - 1))
    with naming(path), path.open("a", encoding="utf-8") as file:
        file.write("\n" * (said > 0) + text)
