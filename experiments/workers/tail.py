"""The last words of a process."""

from __future__ import annotations

MAX_BYTES = 1 << 14


class Tail:
    """Keeps the last bytes of what it is given, however much that is."""

    def __init__(self) -> None:
        self._bytes = b""

    def add(self, data: bytes) -> None:
        """Further output."""
        self._bytes = (self._bytes + data)[-MAX_BYTES:]

    def clear(self) -> None:
        """What follows belongs to something else."""
        self._bytes = b""

    def text(self) -> str:
        """All that is kept."""
        return self._bytes.decode(errors="replace").strip()

    def last_line(self) -> str:
        """The last line that says something."""
        lines = [line.strip() for line in self.text().splitlines() if line.strip()]
        return lines[-1][:500] if lines else ""
