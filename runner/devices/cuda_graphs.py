"""CUDA graphs of the `cuda` device: whole ones, and chains of pieces with eager islands (attention) between them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import UsageError
from .base import CaptureFigures, GraphKey, NoGraphMemory
from .graph_kernels import graph_kernels, kernel_hash

Part = torch.cuda.CUDAGraph | Callable[[], None]


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """Parts in order, and the output tensor whose address every replay writes."""

    parts: tuple[Part, ...]
    output: torch.Tensor

    def replay(self) -> torch.Tensor:
        """Enqueue all parts on the current stream."""
        for part in self.parts:
            if isinstance(part, torch.cuda.CUDAGraph):
                part.replay()
            else:
                part()
        return self.output


class GraphRecorder:
    """Captures on the current stream into one memory pool. Larger keys first: smaller ones reuse their memory."""

    def __init__(self) -> None:
        self._pool: Any = None  # torch's opaque pool id
        self._parts: list[Part] | None = None
        self._open: torch.cuda.CUDAGraph | None = None
        self._kernels: list[str] | None = []

    def capture(self, key: GraphKey, fn: Callable[[], torch.Tensor]) -> tuple[CapturedGraph, CaptureFigures]:
        """Run `fn` once to warm up, then capture it. The caller holds the event lock.

        Raises what `fn` raises, with the capture ended and its memory given back to torch.
        """
        fn()
        torch.cuda.synchronize()
        free_before, began_ns = torch.cuda.mem_get_info()[0], time.perf_counter_ns()
        parts: list[Part] = []
        self._parts = parts if key.mode == "piecewise" else None
        self._kernels = []
        self._begin()
        try:
            output = fn()
            parts.append(self._end())
        except BaseException:
            self._abandon()
            raise
        finally:
            self._parts = None
        torch.cuda.synchronize()
        free_after, ended_ns = torch.cuda.mem_get_info()[0], time.perf_counter_ns()
        figures = CaptureFigures(key, free_before, free_after, ended_ns - began_ns, kernel_hash(self._kernels))
        return CapturedGraph(tuple(parts), output), figures

    def island(self, fn: Callable[[], None]) -> None:
        """Leave `fn` out of a piecewise capture: close the piece, run `fn` now and at each replay, open the next."""
        if self._parts is None:
            fn()
            return
        self._parts.append(self._end())
        fn()
        self._parts.append(fn)
        self._begin()

    def _begin(self) -> None:
        self._open = torch.cuda.CUDAGraph(keep_graph=True)  # kept for the names of its kernels
        self._open.capture_begin(pool=self._pool, capture_error_mode="thread_local")

    def _end(self) -> torch.cuda.CUDAGraph:
        graph = self._open
        assert graph is not None, "no capture is open"
        self._open = None
        graph.capture_end()
        if self._pool is None:
            self._pool = graph.pool()
        names = graph_kernels(graph)
        self._kernels = None if names is None or self._kernels is None else [*self._kernels, *names]
        graph.instantiate()
        return graph

    def _abandon(self) -> None:
        """End a capture that failed. What the driver says of the torn graph is no news: the first error is raised."""
        graph, self._open = self._open, None
        if graph is None:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the graph is empty
            try:
                graph.capture_end()
            except RuntimeError:
                return


class Graphs:
    """The captured graphs of one device by key, and in `figures` what each took."""

    def __init__(self) -> None:
        self._graphs: dict[GraphKey, CapturedGraph] = {}
        self._recorder = GraphRecorder()
        self.island = self._recorder.island
        self.figures: list[CaptureFigures] = []

    def __contains__(self, key: GraphKey) -> bool:
        return key in self._graphs

    def capture(self, key: GraphKey, fn: Callable[[], torch.Tensor]) -> None:
        """Capture `fn` under `key`. Raises NoGraphMemory, with everything given back, where memory runs out."""
        refusal = ""
        try:
            self._graphs[key], figures = self._recorder.capture(key, fn)
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            refusal = str(error).splitlines()[0]
        if refusal:  # raised out here, where no frame of the capture holds its tensors any more
            torch.cuda.empty_cache()
            raise NoGraphMemory(refusal)
        self.figures.append(figures)

    def replay_of(self, key: GraphKey) -> Callable[[], torch.Tensor]:
        """What replays `key`. Raises UsageError for a key that was not captured."""
        if key not in self._graphs:
            raise UsageError(f"no graph was captured for {key}; capture it before the first step")
        return self._graphs[key].replay

    def clear(self) -> None:
        """Drop the graphs; their memory goes back to torch. The figures stay."""
        self._graphs.clear()
