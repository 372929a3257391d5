"""Which copies speak for the block tables, by the way in which a runner commits them."""

import pytest
from stepscope.analysis.summary import summarise
from stepscope.analysis.table_copies import table_buffer, table_buffers
from stepscope.analysis.what_if import table_copies, what_if


def committed(lab, *buffers):
    """Steps whose commit is a copy of that name; a warm-up step before them."""
    made = lab()
    for number, buffer in enumerate(("block_table", *buffers)):
        with made.step(number, warmup=not number), made.span("preprocess", "phase"):
            copy = made.copy(buffer, 50)
            made.copy("positions", 6)
            made.launch("slot_mapping", 5, consumes=(copy,))
            made.host(100)
    return made.recording()


@pytest.mark.parametrize(
    ("buffers", "counts"),
    [
        (["block_diffs"] * 4, {"block_diffs": 4}),
        (["block_rows", "block_table", "block_rows"], {"block_rows": 2, "block_table": 1}),
        (["block_rows", "block_table"], {"block_table": 1, "block_rows": 1}),
        (["block_table.1", "block_table"], {"block_table": 1, "block_table.1": 1}),
        (["input_ids"], {}),
    ],
)
def test_buffers_by_their_copies_in_counted_steps(lab, buffers, counts):
    assert list(table_buffers(committed(lab, *buffers)).items()) == list(counts.items())


def test_a_run_that_sends_differences_is_summed_up_by_them(lab):
    recording = committed(lab, *["block_diffs"] * 6)
    assert table_buffer(recording) == "block_diffs"
    summary = summarise(recording)
    assert (summary.metrics["table_copy_p50_ns"], summary.metrics["exposed_p50_ns"]) == (50, 46)
    # free, the inputs behind it would begin 4 ns later, with their own call; then all else 46 earlier than it did
    # its range holds the copy of an index map as well: what leaving out the commit saves is not known
    assert summary.reasons["commit_step_ns"] == "block_diffs has no range of its own"


def test_nothing_is_saved_by_copies_that_nobody_made(lab):
    found = what_if(committed(lab, *["block_diffs"] * 6), table_copies(["block_rows"], 0))
    assert (found.saved_ns, found.reason) == (None, "no copy of block_rows can be replayed")
