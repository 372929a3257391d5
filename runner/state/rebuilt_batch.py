"""The floor that designs are measured against: the whole batch is built anew from the requests' states in each step."""

from __future__ import annotations

from .input_batch import InputBatch


class RebuiltBatch(InputBatch):
    """Rows hold for one step. What persists is only what the requests' states keep."""

    def begin_step(self) -> None:
        """Empty every row: whoever is scheduled comes back from its state."""
        super().begin_step()
        for req_id in tuple(self.row_of):
            self.remove_request(req_id)
        self._holes.clear()
        self.changed = True
