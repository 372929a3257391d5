"""From the step's common facts to metadata for each layer: what layers of one KV spec share, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..config import MetadataReuse
from ..inputs.step_inputs import GroupTensors
from .metadata import AttentionBackend, CommonAttentionMetadata


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """What metadata of a layer depends on: the KV cache group that holds its blocks, and the window that it sees."""

    group: int
    window: int | None


class LayerMetadata:
    """Builds metadata once for each spec and hands it to all layers of that spec; `per_layer` builds it for each layer.

    The common facts are made for the first group; of other groups only block table and slots differ.
    """

    def __init__(
        self, backend: AttentionBackend, layers: Sequence[LayerSpec], reuse: MetadataReuse = "shared"
    ) -> None:
        self.backend = backend
        self.layers = tuple(layers)
        self._builds: tuple[LayerSpec, ...] = self.layers
        self._build_of_layer: tuple[int, ...] = tuple(range(len(self.layers)))
        if reuse == "shared":
            self._builds = tuple(dict.fromkeys(self.layers))
            self._build_of_layer = tuple(self._builds.index(spec) for spec in self.layers)
        self._plain = self._builds == (LayerSpec(0, None),)  # a plain model's step makes no copy of its facts

    def build(self, common: CommonAttentionMetadata, groups: Sequence[GroupTensors]) -> tuple[object, ...]:
        """One object a layer; `groups` are views of the step's shape, group by group."""
        if self._plain:
            return (self.backend.build(common),) * len(self.layers)
        built = [self.backend.build(_of_spec(common, spec, groups)) for spec in self._builds]
        return tuple(built[index] for index in self._build_of_layer)


def _of_spec(
    common: CommonAttentionMetadata, spec: LayerSpec, groups: Sequence[GroupTensors]
) -> CommonAttentionMetadata:
    tensors = groups[spec.group]
    return replace(common, block_table=tensors.block_table, slot_mapping=tensors.slots, window=spec.window)
