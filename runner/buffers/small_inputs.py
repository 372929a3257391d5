"""The switch `h2d_packing`: the small inputs of a step in a copy each, or all in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt
import torch

from ...errors import UsageError
from ..config import H2DPacking
from ..devices.base import StreamName
from .factory import BufferFactory
from .ports import InputBuffer
from .staged import StagedBuffer

ALIGNMENT_BYTES = 256
"""Each field begins at a multiple, as memory of its own would: kernels load 16 bytes at once."""


@dataclass(frozen=True, slots=True)
class Field:
    """One small input of `capacity` elements."""

    name: str
    capacity: int
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """Size at full capacity."""
        return self.capacity * self.dtype.itemsize


class SmallInputs(Protocol):
    """All small inputs of a runner."""

    def __getitem__(self, name: str) -> InputBuffer:
        """The input of that name."""
        ...

    def close(self) -> int:
        """The step has published all that it has. Returns the correlation of the copy that this makes, or 0."""
        ...


class SeparateInputs:
    """A buffer and a copy each."""

    def __init__(self, factory: BufferFactory, fields: Sequence[Field], stream: StreamName) -> None:
        self._buffers = {
            field.name: factory.buffer(field.name, field.capacity, field.dtype, stream=stream) for field in fields
        }

    def __getitem__(self, name: str) -> InputBuffer:
        """The input of that name."""
        return self._buffers[name]

    def close(self) -> int:
        """All were copied when they were published."""
        return 0


def offsets(fields: Sequence[Field]) -> tuple[list[int], int]:
    """Byte offset of each field, aligned, and the size of the whole."""
    begin, found = 0, []
    for field in fields:
        found.append(begin)
        begin += -(-field.nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return found, begin


class PackedInputs:
    """One buffer, of which each input is a typed view at a fixed offset, so that graphs can read it; one copy takes all
    up to the end of the last input that the step published. What lies between two inputs' used parts travels along, so
    it is kept zero: a padded graph reads tokens behind the last one, and what an earlier step left there (the
    placeholder of a token in flight) may be no token at all. Give the large inputs last.
    """

    def __init__(self, factory: BufferFactory, fields: Sequence[Field], stream: StreamName) -> None:
        places, size = offsets(fields)
        self.buffer = factory.buffer("packed_inputs", size, torch.uint8, stream=stream)
        self._fields = {
            field.name: PackedField(self, field, begin) for field, begin in zip(fields, places, strict=True)
        }
        self._host: npt.NDArray[Any] | None = None  # of the step, from its first acquire to its close
        self._used_bytes = 0

    def __getitem__(self, name: str) -> InputBuffer:
        """The input of that name."""
        return self._fields[name]

    def host(self) -> npt.NDArray[Any]:
        """The step's host memory, bytes."""
        if self._host is None:
            self._host = self.buffer.acquire()
        return self._host

    def use(self, end: int) -> None:
        """The step's copy reaches at least to byte `end`."""
        self._used_bytes = max(self._used_bytes, end)

    def close(self) -> int:
        """Make the copy."""
        used, self._used_bytes = self._used_bytes, 0
        if not used:
            self._host = None
            return 0
        for field in self._fields.values():
            field.clear_rest()
        self._host = None
        return self.buffer.publish(used)


@dataclass(slots=True)
class _View:
    """A field within one slot, of which the first `filled` entries may be other than zero."""

    whole: npt.NDArray[Any]
    array: npt.NDArray[Any]
    filled: int = 0


class PackedField:
    """A typed view of a PackedInputs."""

    def __init__(self, whole: PackedInputs, field: Field, begin: int) -> None:
        self._whole = whole
        self._begin = begin
        self._end = begin + field.nbytes
        self._dtype = torch.empty(0, dtype=field.dtype).numpy().dtype
        self.gpus = tuple(gpu[begin : self._end].view(field.dtype) for gpu in whole.buffer.gpus)
        self._buffer: StagedBuffer = whole.buffer
        self._views: list[_View] = []
        self._published = 0
        self._written = False

    @property
    def gpu(self) -> torch.Tensor:
        """The device view of the step's set of buffers."""
        return self.gpus[self._buffer.current_set]

    def acquire(self) -> npt.NDArray[Any]:
        """The whole host side, free to be written; contents are stale."""
        self._written = True
        return self._view().array

    def publish(self, count: int) -> int:
        """Travels at the close."""
        self._published = count
        if count:
            self._whole.use(self._begin + count * self._dtype.itemsize)
        return 0

    def clear_rest(self) -> None:
        """Zero what lies behind the published entries of this slot. How far somebody wrote who published nothing (his
        tokens are on the device already) is not known: then all of it.
        """
        view, count = self._view(), self._published
        end = view.array.size if self._written and not count else view.filled
        if end > count:
            view.array[count:end] = 0
        view.filled, self._published, self._written = count, 0, False

    def _view(self) -> _View:
        host = self._whole.host()
        for view in self._views:  # a ring has few slots
            if view.whole is host:
                return view
        view = _View(host, host[self._begin : self._end].view(self._dtype))
        if self._buffer.reused:
            self._views.append(view)
        return view


def make_small_inputs(
    packing: H2DPacking, factory: BufferFactory, fields: Sequence[Field], stream: StreamName
) -> SmallInputs:
    """The strategy of the switch. Raises UsageError for an unknown value."""
    if packing == "separate":
        return SeparateInputs(factory, fields, stream)
    if packing == "packed":
        return PackedInputs(factory, fields, stream)
    raise UsageError(f"h2d_packing: unknown value {packing!r}; known are separate, packed")
