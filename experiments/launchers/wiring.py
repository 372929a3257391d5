"""Which workers a sweep gets: by the name behind `--launcher`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UsageError
from .. import sweep
from ..identity import source_digest
from ..launches import num_resident
from ..point import Point
from ..workers.launcher import Launcher
from .local import find_gpus, local_workers

MakeLauncher = Callable[[Path], Launcher]
MOST_WORKERS = 1024


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """Who measures.

    launcher  local: this host's GPUs;  ray: those of an existing cluster
    workers   at most so many; None: one for each GPU
    address   of the cluster; None: RAY_ADDRESS, else the one that this host is a node of
    work      `module:function` in place of the measuring, for tests of everything around it
    """

    launcher: str = "local"
    workers: int | None = None
    address: str | None = None
    work: str | None = None

    @property
    def elsewhere(self) -> bool:
        """Whether the points run on other machines than the driver's."""
        return self.launcher != "local"

    def checked(self) -> LaunchOptions:
        """The same. Raises UsageError for what is no launcher, or does not go together."""
        if self.launcher not in _MAKERS:
            raise UsageError(f"--launcher: {self.launcher!r} is unknown; give one of {', '.join(_MAKERS)}")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers: {self.workers} is too small; at least 1")
        if self.workers is not None and self.workers > MOST_WORKERS:
            raise UsageError(f"--workers: {self.workers} is too large; at most {MOST_WORKERS}")
        if self.address is not None and self.launcher != "ray":
            raise UsageError("--address: is a Ray cluster's; add --launcher ray, or drop it")
        return self


def make_launcher(options: LaunchOptions, points: Sequence[Point]) -> MakeLauncher:
    """How the workers for `points` are made, given a folder for their files. Raises UsageError for what cannot be."""
    options.checked()
    resident = num_resident(points)
    if resident and (options.elsewhere or options.workers is not None):
        raise UsageError(
            "measure.resident: its launches take turns on one device of this host;"
            " drop --launcher and --workers, or set measure.resident: false"
        )
    if resident:
        return lambda scratch: sweep.local_workers(scratch, resident)
    return _MAKERS[options.launcher](options, points)


def _cuda(points: Sequence[Point]) -> bool:
    return any(point.spec.device == "cuda" for point in points)


def _local(options: LaunchOptions, points: Sequence[Point]) -> MakeLauncher:
    try:
        gpus = find_gpus() if _cuda(points) else ()
    except UsageError:
        if (options.workers or 1) > 1:
            raise
        gpus = ()  # one worker can do without a count: it gets the GPU that CUDA gives it
    return lambda scratch: local_workers(scratch, gpus=gpus, count=options.workers, work=options.work)


def _ray(options: LaunchOptions, points: Sequence[Point]) -> MakeLauncher:
    from .fleet import Fleet
    from .ray_connect import connect

    def make(scratch: Path) -> Launcher:
        cluster = connect(options.address, needs_gpu=_cuda(points), work=options.work)
        return Fleet(cluster, scratch, engine=source_digest(), most=options.workers)

    return make


_MAKERS: dict[str, Callable[[LaunchOptions, Sequence[Point]], MakeLauncher]] = {"local": _local, "ray": _ray}
