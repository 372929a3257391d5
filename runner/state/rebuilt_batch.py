"""The baseline for other designs of the batch: all rows are built anew from the requests' states in each step."""

from __future__ import annotations

from .input_batch import InputBatch


class RebuiltBatch(InputBatch):
    """A batch whose rows last for one step; only the states of requests persist."""

    def begin_step(self) -> None:
        """Empty every row: whoever is scheduled comes back from its state."""
        super().begin_step()
        for req_id in tuple(self.row_of):
            self.remove_request(req_id)
        self._holes.clear()
        self.changed = True
