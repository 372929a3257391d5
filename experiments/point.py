"""A point of a sweep: one launch of one experiment, and how it is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from .spec import PointSpec
from .typed import convert

PLAN_VERSION = 2
"""Version 1 had a folder of its own, with an id of its own, for each launch of a point."""

Choice = dict[str, Any]
"""What one point changes: dotted path -> value."""


@dataclass(frozen=True, slots=True)
class Point:
    """One launch of one point: what is measured in one go.

    id          the hash of everything in `spec`; launches of a point share it
    choice      what its axes chose
    repeat      which of `spec.measure.repeats` launches this is, from 0
    stored_as   its folder where the plan says so itself (version 1); else empty
    """

    id: str
    slug: str
    choice: Choice
    spec: PointSpec
    repeat: int = 0
    stored_as: str = ""

    @property
    def key(self) -> str:
        """A name that no other launch in the plan has."""
        return self.id if self.spec.measure.repeats == 1 else f"{self.id}-{self.repeat + 1}"

    @property
    def title(self) -> str:
        """What it is called to people."""
        return self.slug if self.spec.measure.repeats == 1 else f"{self.slug} launch {self.repeat + 1}"

    @property
    def folder(self) -> str:
        """Its folder below `points/`: the point's, or where a point has several launches, one in it."""
        if self.stored_as:
            return self.stored_as
        launch = "" if self.spec.measure.repeats == 1 else f"/launch-{self.repeat + 1}"
        return f"{self.slug}--{self.id}{launch}"


def parameters(spec: PointSpec) -> dict[str, Any]:
    """All resolved parameters of a point as plain values, nested by section."""
    tree = msgspec.to_builtins(spec)
    assert isinstance(tree, dict)
    return tree


def read_point(entry: Mapping[str, Any], version: int = PLAN_VERSION) -> Point:
    """One entry of a plan.json. Raises UsageError, KeyError or TypeError where it is none."""
    spec = convert(PointSpec, entry["parameters"], "parameters")
    stored_as = f"{entry['slug']}--{entry['id']}" if version == 1 else ""
    return Point(entry["id"], entry["slug"], entry["choice"], spec, entry["repeat"], stored_as)


def point_entry(point: Point) -> dict[str, Any]:
    """What plan.json, and a task on its way to a worker, says of a point."""
    return {
        "id": point.id, "slug": point.slug, "repeat": point.repeat, "folder": point.folder, "choice": point.choice,
        "parameters": parameters(point.spec),
    }  # fmt: skip
