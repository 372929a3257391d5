"""Section: where the numbers come from: machine, workload, runner, calibration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from ...analysis.tables import texts
from ...instrumentation.recording.meta import RecordingMeta
from ...instrumentation.recording.registry import ENVIRONMENT_KEYS
from ..document import Block, Cell, Facts, Missing, Quantity, Section

_MAX_ITEMS = 80


def environment_section(meta: RecordingMeta, calibration: pd.DataFrame, num_steps: int) -> Section:
    """Four fact sheets: recording, calibration (modelled only), machine, configuration."""
    blocks: list[Block] = [Facts("Recording", _recording(meta, num_steps))]
    if meta.modelled:
        blocks.append(Facts("Calibration of the modelled device", _calibration(meta, calibration)))
    blocks.append(Facts("Machine", environment_items(meta.environment)))
    for name, items in configuration_groups(meta.configuration):
        blocks.append(Facts(name, items))
    return Section("environment", "Environment and workload", tuple(blocks), nav="Environment")


def _recording(meta: RecordingMeta, num_steps: int) -> tuple[tuple[str, Cell], ...]:
    clocks = ", ".join(f"{clock.clock_id} ({clock.kind})" for clock in meta.clocks)
    items: list[tuple[str, Cell]] = [
        ("made by", meta.source), ("made at", meta.created), ("device", meta.device),
        ("device times", f"modelled with {meta.calibration}" if meta.modelled else
         "measured" if meta.has_device else "not applicable: there is no device"),
        ("clocks", clocks or Missing("no clock is named")), ("steps", Quantity(num_steps, "count")),
        ("schema version", str(meta.schema_version)),
    ]
    return (*items, *((f"history {i}", event) for i, event in enumerate(meta.history, 1)))


def calibration_facts(calibration: pd.DataFrame) -> dict[str, str]:
    """GPU, driver, date and source of a calibration, as far as its rows name them."""
    facts = {}
    for name in ("gpu", "driver", "date", "source"):
        values = dict.fromkeys(value for value in texts(calibration, name) if value)
        if values:
            facts[name] = ", ".join(values)
    return facts


def _calibration(meta: RecordingMeta, calibration: pd.DataFrame) -> tuple[tuple[str, Cell], ...]:
    facts = calibration_facts(calibration)
    silent = Missing("the calibration does not name it")
    named = ((name, facts.get(name, silent)) for name in ("gpu", "driver", "date"))
    name = meta.calibration or Missing("not named")
    return (("name", name), *named, ("constants", Quantity(len(calibration), "count")))


def environment_items(environment: Mapping[str, object]) -> tuple[tuple[str, Cell], ...]:
    """The machine's fingerprint in the order of the registry, with its labels. Reasons of nothing are left out."""
    items: list[tuple[str, Cell]] = []
    for key, value in sorted(environment.items(), key=lambda item: _rank(item[0])):
        if value is None and key.endswith("_reason"):
            continue  # beside "page-locked memory: yes" there is no reason to miss
        known = ENVIRONMENT_KEYS.get(key)
        label = known.label if known else key
        items.append((label, _environment_cell(key, value, environment, known.unit if known else "")))
    return tuple(items) or (("fingerprint", Missing("the recording holds none")),)


def _rank(key: str) -> int:
    return list(ENVIRONMENT_KEYS).index(key) if key in ENVIRONMENT_KEYS else len(ENVIRONMENT_KEYS)


def _environment_cell(key: str, value: object, environment: Mapping[str, object], unit: str) -> Cell:
    if value is None:
        family = key.split("_")[0]
        why = environment.get(f"{key}_reason") or (environment.get("nvml_reason") if family == "gpu" else None)
        return Missing(str(why) if why else "not found on this machine")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "bytes" and isinstance(value, int):
        return Quantity(value, "bytes")
    return f"{value} MHz" if unit == "mhz" else str(value)


def configuration_groups(configuration: Mapping[str, Any]) -> Iterator[tuple[str, tuple[tuple[str, Cell], ...]]]:
    """The run's spec, a sheet a section; single values share the sheet "Configuration"."""
    single = [(name, value) for name, value in configuration.items() if not isinstance(value, Mapping)]
    if single:
        yield "Configuration", tuple((name, _setting(value)) for name, value in single)
    for name, value in configuration.items():
        if isinstance(value, Mapping) and value:
            yield name.capitalize(), tuple((path, _setting(item)) for path, item in _flat(value))[:_MAX_ITEMS]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _setting(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "none"
    return "default" if value is None else str(value)
