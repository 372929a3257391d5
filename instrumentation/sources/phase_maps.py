"""Which range means which phase of a step: maps for known engines, and files of the user's own.

    phases:
      preprocess: ["prepare inputs", "re:build_.*"]
      forward: ["model"]
      sample: ["sampler"]
    step: "re:iteration [0-9]+"          # optional: ranges that are steps
    index_building: ["build_indices"]  # optional: host work that a block-table copy can hide behind
    domain: my_engine                  # optional: only ranges of this NVTX domain

A name stands for itself; `re:` begins a regular expression that the whole name must match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import yaml

from ...errors import UsageError
from .markers import OWN_PREFIX

PHASES = ("preprocess", "forward", "sample")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    phases: dict[str, list[str]] = {}
    step: str | None = None
    index_building: list[str] = []
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class PhaseMap:
    """Patterns of range names. `domain` None: ranges of every domain."""

    name: str
    phases: Mapping[str, tuple[str, ...]]
    index_building: tuple[str, ...] = ()
    step: str | None = None
    domain: str | None = None

    def phase(self, name: str, domain: str | None) -> str | None:
        """The phase that a range of this name belongs to."""
        if not self._concerns(domain):
            return None
        return next((phase for phase, patterns in self.phases.items() if _matches(name, patterns)), None)

    def builds_indices(self, name: str, domain: str | None) -> bool:
        """Whether the range is host work of the kind that a copy of the block table is hidden behind."""
        return self._concerns(domain) and _matches(name, self.index_building)

    def is_step(self, name: str, domain: str | None) -> bool:
        """Whether the range is a step by the map's own word."""
        return self.step is not None and self._concerns(domain) and _matches(name, (self.step,))

    def _concerns(self, domain: str | None) -> bool:
        return self.domain is None or self.domain == domain


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(
        _compiled(pattern).fullmatch(name) is not None if pattern.startswith("re:") else pattern == name
        for pattern in patterns
    )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.removeprefix("re:"))


BUILT_IN = (
    PhaseMap(
        "stepscope", {phase: (phase,) for phase in PHASES},
        index_building=("build_indices", "slot_mapping", "attention_metadata"), domain="stepscope",
    ),
    PhaseMap(
        "stepscope", {phase: (f"{OWN_PREFIX}{phase}",) for phase in PHASES},
        index_building=tuple(f"{OWN_PREFIX}{name}" for name in ("build_indices", "slot_mapping", "attention_metadata")),
    ),
    PhaseMap(
        "vllm_v1",
        {
            "preprocess": ("gpu_model_runner: preprocess",),
            "forward": ("gpu_model_runner: forward",),
            "sample": (
                "gpu_model_runner: postprocess", "gpu_model_runner: sample", "gpu_model_runner: bookkeep",
                "gpu_model_runner: ModelRunnerOutput", "gpu_model_runner: AsyncGPUModelRunnerOutput",
                "gpu_model_runner: set_async_sampled_token_ids", "gpu_model_runner: draft",
            ),
        },
        index_building=("gpu_model_runner: preprocess",),
    ),
    PhaseMap(
        "vllm_v2",
        {
            "preprocess": ("re:(gpu_model_runner|model_runner)(_v2)?: (prepare_inputs|prepare_attn|update_requests)",),
            "forward": ("re:(gpu_model_runner|model_runner)(_v2)?: (run_fullgraph|run_model|execute_model)",),
            "sample": ("re:(gpu_model_runner|model_runner)(_v2)?: (sample|sample_tokens|postprocess_sampled)",),
        },
        index_building=("re:(gpu_model_runner|model_runner)(_v2)?: prepare_inputs",),
    ),
    PhaseMap(
        "sglang",
        {
            "preprocess": (
                "scheduler.get_next_batch_to_run", "init_new", "ForwardBatch.init_new", "init_forward_metadata",
                "replay_prepare",
            ),
            "forward": ("scheduler.run_batch", "re:ModelRunner\\.forward(_decode|_extend|_idle)?", "cuda_graph.replay"),
            "sample": ("scheduler.process_batch_result", "ModelRunner.sample"),
        },
        index_building=("scheduler.get_next_batch_to_run", "init_forward_metadata", "replay_prepare"),
    ),
    PhaseMap("plain", {phase: (phase,) for phase in PHASES}, index_building=("build_indices", "preprocess")),
)
"""Asked in this order. `plain` is for engines that call the phases by their names."""


def load_phase_map(path: Path) -> PhaseMap:
    """A user's map. Raises UsageError that names the file and the field."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        file = msgspec.convert(content, _File)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give a YAML file with a key `phases`") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid YAML ({str(error).splitlines()[0]})") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}; keys are phases, step, index_building and domain") from error
    unknown = sorted(set(file.phases) - set(PHASES))
    if unknown:
        raise UsageError(f"{path}: phases: {unknown[0]!r} is no phase; phases are {', '.join(PHASES)}")
    patterns = [*(entry for names in file.phases.values() for entry in names), *file.index_building, file.step or ""]
    for pattern in patterns:
        _check(path, pattern)
    return PhaseMap(
        path.stem, {phase: tuple(names) for phase, names in file.phases.items()}, tuple(file.index_building),
        file.step, file.domain,
    )


def _check(path: Path, pattern: str) -> None:
    if pattern.startswith("re:"):
        try:
            re.compile(pattern[3:])
        except re.error as error:
            raise UsageError(f"{path}: {pattern!r} is no regular expression ({error})") from error
