"""Attention left out of piecewise graphs: an island that runs eagerly between two captured pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..devices.base import Device
from .metadata import AttentionBackend, CacheReader, CommonAttentionMetadata


@dataclass(frozen=True, slots=True)
class IslandMetadata:
    """What a layer is given while pieces are captured: its number, and the metadata of the capture."""

    layer: int
    captured: object


class Islands:
    """A backend whose attention stays outside the graph that is being captured.

    An island reads what the piece before it wrote, and its layer's metadata of the step that runs (`running`), never
    that of the capture. Its output is made within a piece, so it has an address that the next piece can read.
    """

    def __init__(self, device: Device, backend: AttentionBackend, running: Callable[[], Sequence[object]]) -> None:
        self.name = backend.name
        self._device = device
        self._backend = backend
        self._running = running

    def build(self, common: CommonAttentionMetadata) -> object:
        """The backend's own."""
        return self._backend.build(common)

    def slots(self, metadata: object) -> torch.Tensor:
        """The backend's own: pieces read slots at their fixed address."""
        return self._reader().slots(_of_capture(metadata).captured)

    def attend(
        self, query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, metadata: object
    ) -> torch.Tensor:
        """The backend's attend as an island; the model's kernel, inside the piece, has written the cache."""
        reader, running, layer = self._reader(), self._running, _of_capture(metadata).layer
        return self._island(query, lambda: reader.attend(query, key_cache, value_cache, running()[layer]))

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
        key_cache: torch.Tensor, value_cache: torch.Tensor, metadata: object,
    ) -> torch.Tensor:
        """The backend's forward as an island; of `metadata` only the layer's number is used."""
        backend, running, layer = self._backend, self._running, _of_capture(metadata).layer
        return self._island(
            query, lambda: backend.forward(query, key, value, key_cache, value_cache, running()[layer])
        )

    def _reader(self) -> CacheReader:
        assert isinstance(self._backend, CacheReader), "this backend writes the cache by itself"
        return self._backend

    def _island(self, query: torch.Tensor, attention: Callable[[], torch.Tensor]) -> torch.Tensor:
        out = torch.empty_like(query, memory_format=torch.contiguous_format)

        @torch.inference_mode()
        def attend() -> None:
            out.copy_(attention())

        self._device.island(attend)
        return out


def _of_capture(metadata: object) -> IslandMetadata:
    assert isinstance(metadata, IslandMetadata), "metadata of a step, not of a capture"
    return metadata
