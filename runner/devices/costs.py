"""What device calls cost on a calibrated machine running a calibrated model. Refuses what was not measured."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

from ...errors import UsageError
from .base import Work
from .calibration import Calibration, CopyPoint, ModelCosts, stair

CopyCurve = Literal["h2d_pinned", "d2h_pinned", "h2d_pageable"]
CHECK = "check"
"""Kind of Work that the runner adds only to check itself: it takes no modelled time."""
MOVE = "move"
"""Kind of Work that moves data within the device: its time follows from `moved_bytes`."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one operation: host time of its call, latency from the call's end until an idle queue starts it, device time.

    The latency is negative for a copy that starts while its call is still feeding it.
    """

    host_ns: int
    latency_ns: int
    device_ns: int


class CostModel:
    """Costs of one decoder stack on one machine.

    Raises UsageError when the calibration has no such model, or when a shape lies above everything that was measured.
    """

    def __init__(self, calibration: Calibration, model: str) -> None:
        if model not in calibration.models:
            known = ", ".join(sorted(calibration.models)) or "none"
            raise UsageError(f"cost model {model!r} is not calibrated on {calibration.gpu} (calibrated: {known})")
        self.calibration = calibration
        self.model = model
        self._costs: ModelCosts = calibration.models[model]

    @property
    def layers(self) -> int:
        """Decoder layers of the stack."""
        return self._costs.layers

    def operation(self, work: Work) -> Cost:
        """One launched operation that is not the stack itself."""
        if work.kind == CHECK:
            return Cost(0, 0, 0)
        if work.kind == MOVE:
            return Cost(
                self.calibration.host_cost_ns.launch, self.calibration.launch_latency_ns.kernel, self.move_ns(work)
            )
        host = self.calibration.host_cost_ns
        host_ns = host.launch_by_kind.get(work.kind, host.launch)
        return Cost(host_ns, self.calibration.launch_latency_ns.kernel, self._operation_ns(work))

    def eager_layers(self, work: Work) -> tuple[Cost, ...]:
        """The eager stack: one entry a layer. Device time is the graph's: the kernels are the same."""
        eager = self._costs.eager
        host_ns = split(self._stair(eager.sizes, eager.host_ns, work.tokens, "eager tokens"), self.layers)
        stack_ns = split(self.stack_ns(work.tokens), self.layers)
        attention_ns = split(self.attention_ns(work), self.layers)
        latency_ns = self.calibration.launch_latency_ns.kernel
        return tuple(
            Cost(host, latency_ns, stack + attention)
            for host, stack, attention in zip(host_ns, stack_ns, attention_ns, strict=True)
        )

    def full_graph(self, tokens: int, work: Work) -> Cost:
        """One replay of the whole stack captured for `tokens`; attention by what `work` really reads."""
        return Cost(
            self.calibration.host_cost_ns.graph_launch,
            self.calibration.launch_latency_ns.graph,
            self.stack_ns(tokens) + self.attention_ns(work),
        )

    def piecewise_layers(self, tokens: int, work: Work) -> tuple[tuple[Cost, Cost], ...]:
        """(graph piece, eager attention) for each layer."""
        host, latency_ns = self.calibration.host_cost_ns, self.calibration.launch_latency_ns
        pieces = split(self.stack_ns(tokens), self.layers)
        attentions = split(self.attention_ns(work), self.layers)
        return tuple(
            (
                Cost(host.graph_launch_piece, latency_ns.graph, piece),
                Cost(host.launch, latency_ns.kernel, attention),
            )
            for piece, attention in zip(pieces, attentions, strict=True)
        )

    def stack_ns(self, tokens: int) -> int:
        """G(tokens): device time of the stack at the next calibrated size >= tokens."""
        return self._stair(self._costs.sizes, self._costs.graph_ns, tokens, "tokens")

    def move_ns(self, work: Work) -> int:
        """A kernel that moves data within the device: both ways at the measured rate, and never shorter than slot
        mapping for one row, a kernel that does next to nothing.
        """
        rate = self.calibration.device_copy_bytes_per_s
        if rate is None:
            raise UsageError(
                f"calibration of {self.calibration.gpu}: device_copy_bytes_per_s is absent, and this runner moves data"
                " within the device; run perf doctor --calibrate"
            )
        return max(self._operation_ns(Work("slot_mapping", rows=1)), round(2e9 * work.moved_bytes / rate))

    def attention_ns(self, work: Work) -> int:
        """A: what reading KV adds to the stack, decode queries and (query, key) pairs of prefill rows."""
        costs = self._costs.attention
        return _affine(work.kv_tokens, costs.decode_ns_per_kv_token, costs.decode_floor_ns) + _affine(
            work.prefill_pairs, costs.prefill_ns_per_pair, costs.prefill_floor_ns
        )

    def copy(self, curve: CopyCurve, size_bytes: int) -> Cost:
        """One copy. Of a pageable source the host's call and the transfer overlap: the last byte lands when, or
        (a transfer that is longer than the call) after, the call has returned and the latency has passed.
        """
        point = self._point(curve, size_bytes)
        host, latency_ns = self.calibration.host_cost_ns, self.calibration.launch_latency_ns.copy
        if curve == "h2d_pinned":
            return Cost(host.copy_h2d_pinned, latency_ns, point.device_ns)
        if curve == "d2h_pinned":
            return Cost(host.copy_d2h_pinned, latency_ns, point.device_ns)
        overlap_ns = min(point.host_blocked_ns, point.device_ns)
        return Cost(point.host_blocked_ns, latency_ns - overlap_ns, point.device_ns)

    def _point(self, curve: CopyCurve, size_bytes: int) -> CopyPoint:
        """Between measured points linearly in bytes; below the first one its constant."""
        points: tuple[CopyPoint, ...] = getattr(self.calibration.copy_curves, curve)
        above = bisect_left(points, size_bytes, key=lambda point: point.bytes)
        if above == len(points):
            raise self._uncalibrated(f"{curve} copy of {size_bytes} bytes", points[-1].bytes)
        low, high = points[max(0, above - 1)], points[above]
        if above == 0:
            return high
        return CopyPoint(
            size_bytes,
            _between(size_bytes, (low.bytes, low.device_ns), (high.bytes, high.device_ns)),
            _between(size_bytes, (low.bytes, low.host_blocked_ns), (high.bytes, high.host_blocked_ns)),
        )

    def _operation_ns(self, work: Work) -> int:
        """The LM head may run on every position, and gathers the rows that decide in the same operation."""
        if work.kind == "lm_head":
            return self._rows_ns("lm_head", max(work.rows, work.tokens)) + self._rows_ns("gather_hidden", work.rows)
        return self._rows_ns(work.kind, work.rows)

    def _rows_ns(self, kind: str, rows: int) -> int:
        stairs = self._costs.operations.get(kind)
        if stairs is None:
            known = ", ".join((*sorted(self._costs.operations), "forward"))
            gpu = self.calibration.gpu
            raise UsageError(f"operation kind {kind!r} is not calibrated on {gpu}; known: {known}")
        return self._stair(stairs.rows, stairs.ns, rows, f"rows of {kind}")

    def _stair(self, keys: tuple[int, ...], values: tuple[int, ...], n: int, what: str) -> int:
        value = stair(keys, values, n)
        if value is None:
            raise self._uncalibrated(f"{n} {what}", keys[-1])
        return value

    def _uncalibrated(self, what: str, largest: int) -> UsageError:
        where = f"{self.model} on {self.calibration.gpu}"
        mend = "ask for less, or use --device cuda"
        return UsageError(f"uncalibrated shape: {what} for {where}; the largest calibrated is {largest}; {mend}")


def split(total: int, parts: int) -> tuple[int, ...]:
    """`total` as `parts` integers that differ by at most 1, larger ones first: split(11, 3) is (4, 4, 3)."""
    share, rest = divmod(total, parts)
    return (share + 1,) * rest + (share,) * (parts - rest)


def _affine(amount: int, rate: float, floor_ns: int) -> int:
    return floor_ns + round(amount * rate) if amount else 0


def _between(x: int, low: tuple[int, int], high: tuple[int, int]) -> int:
    """The line through `low` and `high` at `x`, rounded down to an integer."""
    return low[1] + (high[1] - low[1]) * (x - low[0]) // (high[0] - low[0])
