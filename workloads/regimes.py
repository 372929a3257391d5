"""Named regimes: constructed workloads that force one kind of step, each by a slug and a few parameters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from ..errors import UsageError
from .regime_base import Regime, Seeded
from .regimes_ahead import Alternating, PingPong
from .regimes_decode import Churn, CondenseStorm, GraphEdge, LongRow, Steady
from .regimes_groups import Hybrid, KernelBlocks
from .regimes_prefill import Chunked, PrefixStorm, ShortExtend
from .regimes_pressure import ForcedResets, MassPreempt, Thrash
from .regimes_speculative import SpecRollback
from .workload import Workload

REGIMES: Mapping[str, type[Regime]] = MappingProxyType(
    {
        regime.slug: regime
        for regime in (
            Steady,
            Alternating,
            CondenseStorm,
            MassPreempt,
            ForcedResets,
            PingPong,
            Thrash,
            Chunked,
            ShortExtend,
            SpecRollback,
            Hybrid,
            KernelBlocks,
            PrefixStorm,
            Churn,
            GraphEdge,
            LongRow,
        )
    }
)


def build(slug: str, *, seed: int, vocab_size: int, **parameters: object) -> Workload:
    """The workload of a regime; `parameters` are fields of its class in `REGIMES`, the others have its defaults.

    Raises UsageError: no such regime, an unknown or unfit parameter, or a request that can never run.
    """
    regime = REGIMES.get(slug)
    if regime is None:
        raise UsageError(f"workload: regime {slug!r} is unknown; known ones are {', '.join(REGIMES)}")
    try:
        settings = msgspec.convert(parameters, regime)
    except msgspec.ValidationError as error:
        known = ", ".join(regime.__struct_fields__)
        raise UsageError(f"workload {slug}: {error}; its parameters are {known}") from error
    return settings.build(Seeded(seed, vocab_size))
