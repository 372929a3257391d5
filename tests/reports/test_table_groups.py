"""Block tables that come by several buffers: each has its figures, and a what-if changes all of them."""

from __future__ import annotations

import pandas as pd
from stepscope.reports import render
from stepscope.reports.views.copies import gather_copies


def test_each_buffer_has_a_row_and_the_what_ifs_take_all(recordings) -> None:
    # GIVEN block tables of a second group, copied where the first is
    recording = recordings(6)
    one = gather_copies(recording)
    assert one.groups == ()
    assert one.what_if[0].change.name == "copy of block_table free"
    copies = recording.tables["copies"]
    second = copies[copies["buffer"] == "block_table"].assign(buffer="block_table.1")
    second["correlation"] = second["correlation"].mask(second["correlation"].notna())
    recording.tables["copies"] = pd.concat([copies, second], ignore_index=True)
    found = gather_copies(recording)
    # THEN both are listed, the second without an exposure, since nobody declared who reads it
    first, other = found.groups
    assert (first.buffer, first.copies, first.copy_p50_ns) == ("block_table", 5, one.figure("copy").p50_ns)
    assert (other.buffer, other.copies, other.copy_p50_ns) == ("block_table.1", 5, first.copy_p50_ns)
    assert other.exposed_p50_ns is None
    assert other.reason
    assert found.what_if[0].change.copies == {"block_table": 0.0, "block_table.1": 0.0}
    text = " ".join(render(recording, "text", name="x").split())
    assert "All copies that bring block tables" in text
    assert "all block-table copies free" in text
