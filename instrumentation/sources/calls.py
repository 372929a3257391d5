"""What a call of the CUDA or HIP runtime or driver does, told from its name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .trace import API, LAUNCH, SYNC

NO_NAME = "[call without a name]"
"""Stands for a name that the capture does not have: what such a call did nobody knows."""

_SUFFIX = re.compile(r"(?:_ptsz|_ptds)?(?:_v\d{4,5})?(?:_ptsz|_ptds)?$")
_GRAPH_LAUNCH = re.compile(r"(?:cuda|cu|hip)GraphLaunch")
_LAUNCH = re.compile(r"(?:cuda|cu|hip)(?:Ext)?(?:Module)?Launch(?!HostFunc)\w*|hip(?:Ext|Hcc)ModuleLaunchKernel")
_SYNC = re.compile(r"(?:cuda|cu|hip)(?:Device|Ctx|Context|Stream|Event|Thread)Synchronize")
_COPY = re.compile(r"(?:cuda|cu|hip)Memcpy\w*")
_MEMSET = re.compile(r"(?:cuda|cu|hip)Memset\w*")


@dataclass(frozen=True, slots=True)
class Call:
    """`name` without version and stream suffixes; `kind` as in HOST_KINDS."""

    name: str
    kind: int
    is_graph_launch: bool
    is_copy: bool
    is_memset: bool
    is_async: bool


@lru_cache(maxsize=4096)
def call_of(name: str) -> Call:
    """`cudaMemcpyAsync_v3020` → (cudaMemcpyAsync, api, copy, async). Unknown names are plain calls."""
    bare = _SUFFIX.sub("", name, count=1) or NO_NAME
    graph = _GRAPH_LAUNCH.fullmatch(bare) is not None
    copy = _COPY.fullmatch(bare) is not None
    kind = LAUNCH if graph or _LAUNCH.fullmatch(bare) else SYNC if _SYNC.fullmatch(bare) else API
    memset = _MEMSET.fullmatch(bare) is not None
    return Call(bare, kind, graph, copy, memset, (copy or memset) and "Async" in bare)
