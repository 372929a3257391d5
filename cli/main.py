"""The `perf` command: its verbs, and the one place where errors become exit codes.

Nothing heavy is imported here: a verb imports what it needs when it runs, so `perf --help` answers at once.
"""

from __future__ import annotations

import functools
import signal
import sys
import traceback
from collections.abc import Callable, Sequence

import typer

from ..errors import StepscopeError
from .capture import capture
from .claims import claims
from .diff import diff
from .doctor import doctor
from .gate import gate
from .history import history
from .import_ import import_
from .linux_perf import explain
from .report import report
from .run import run
from .sizes import sizes
from .step import step
from .streams import FULL, drop, name_of, say, settle
from .sweep import sweep
from .verify import verify

INTERRUPTED = 130
INTERNAL = 70
_DISTRIBUTIONS = {"yaml": "PyYAML", "pynvml": "nvidia-ml-py"}


class _Verbs(typer.Typer):
    """The verbs, read once a process: typer reads every verb's options again at each call, 0.1 s."""

    @functools.cached_property
    def _command(self) -> Callable[..., object]:
        return typer.main.get_command(self)

    def __call__(self, *arguments: object, **options: object) -> object:
        return self._command(*arguments, **options)


app = _Verbs(
    name="perf",
    help="Where the time of an LLM inference step goes: host and device, copies, pinned buffers, CUDA graphs.",
    epilog="Exit codes: 0 done, 1 a regression or a broken invariant, 2 usage or unusable input, 3 measurement failed,"
    " 4 inconclusive, 5 incomparable, 70 internal error, 130 interrupted. --debug anywhere: with the traceback.",
    add_completion=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,  # rich costs more than the whole budget of --help
    pretty_exceptions_enable=False,
)


def _interruptible(command: Callable[..., object]) -> Callable[..., object]:
    """`command` with Ctrl-C as Abort: typer turns a bare KeyboardInterrupt into an exit code and says nothing."""

    @functools.wraps(command)
    def wrapped(*arguments: object, **options: object) -> object:
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt:
            raise typer.Abort from None

    return wrapped


_VERBS: tuple[tuple[str, Callable[..., object], str], ...] = (
    ("sweep", sweep, "Many points into one folder and one report."),
    ("run", run, "One point: its recording, its report, its answers."),
    ("step", step, "A step's smallest arrays, and the first broken invariant."),
    ("report", report, "A recording, a capture or a sweep as a page or as text."),
    ("diff", diff, "Two recordings, or a run and its capture, phase by phase."),
    ("import", import_, "A capture of another profiler becomes a recording."),
    ("capture", capture, "Our run or any command under a profiler, then the import."),
    ("sizes", sizes, "The best CUDA-graph capture sizes for a workload."),
    ("claims", claims, "What measured design claims say, with verdicts."),
    ("verify", verify, "Plant random truths, and check that the tool finds them."),
    ("doctor", doctor, "What this machine can measure, and what to do about it."),
    ("history", history, "Where a figure changed, over stored results."),
)
"""Name, work, and its line in `perf --help`: short enough for 80 columns."""
for _name, _command, _line in _VERBS:
    app.command(_name, short_help=_line)(_interruptible(_command))
app.add_typer(gate, name="gate", short_help="Has it become slower? Two arms side by side, A B B A.")

# typer brings its own copy of click in some releases and uses the package in others; both carry this class
_UsageProblem: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _version(value: bool) -> None:
    if value:
        from .. import __version__

        typer.echo(f"stepscope {__version__}")
        raise typer.Exit


@app.callback()
def _globals(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass


def guarded(work: Callable[[], object], *, debug: bool = False) -> int:
    """Run `work` and turn what it raises into the exit code; one line on stderr tells why."""
    try:
        code = work()
        settle()
    except StepscopeError as error:
        return _told(str(error), error.exit_code, debug)
    except _UsageProblem as error:
        return _told(error.format_message(), 2, debug)  # type: ignore[attr-defined]
    except (KeyboardInterrupt, typer.Abort):
        return _told("interrupted", INTERRUPTED, debug)
    except BrokenPipeError:
        # the reader of our output went away (`perf ... | head`): nothing is left to say, and nothing may be flushed
        drop(sys.stdout)
        return 0
    except MemoryError as error:
        return _told(f"does not fit into memory ({error}); lower the counts or sizes that were asked for", 2, debug)
    except Exception as error:  # noqa: BLE001 - the last line of defence: an internal error has its own exit code
        return _told(*_unforeseen(error), debug)
    return code if isinstance(code, int) else 0


def _unforeseen(error: Exception) -> tuple[str, int]:
    """What no domain error tells: of the machine's state, or a mistake of ours."""
    if isinstance(error, OSError) and (name := name_of(error)) is not None:  # a full disk, a long name
        drop(sys.stdout if error.filename is None else None)
        return f"{name}: {error.strerror}; {'make room or ' * (error.errno in FULL)}choose another path", 2
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("stepscope"):
        package = _DISTRIBUTIONS.get(error.name.partition(".")[0], error.name.partition(".")[0])
        return f"the package {package} is not installed here, and this needs it; pip install {package}", 2
    return f"internal error: {type(error).__name__}: {error} (--debug shows where)", INTERNAL


def _told(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    say(message)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name) and return the exit code."""
    arguments, debug = _without_debug(list(sys.argv[1:] if argv is None else argv))
    if not arguments:
        guarded(lambda: app(["--help"], prog_name="perf", standalone_mode=False))
        say("name a command, one of those above")
        return 2
    mistaken = explain(arguments)
    if mistaken:
        say(mistaken)
        return 2
    try:
        code = guarded(lambda: app(arguments, prog_name="perf", standalone_mode=False), debug=debug)
    except KeyboardInterrupt:  # the second one, while the first was told
        code = INTERRUPTED
    if argv is None and code == INTERRUPTED:
        end_interrupted()
    return code


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """`arguments` without our --debug, and whether it was there. Behind -- it belongs to the captured command."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own = [argument for argument in arguments[:end] if argument != "--debug"]
    return own + arguments[end:], len(own) < end


def end_interrupted() -> None:
    """Before a program ends with 130: one more Ctrl-C changes nothing.

    CPython ends by SIGINT, not with the exit code, where a Ctrl-C broke into an `exec` (imports run many), caught or
    not; an `exec` that comes to its end resets that.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exec("")
