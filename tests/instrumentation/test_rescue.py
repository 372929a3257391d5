"""What is read of a run on a GPU that was killed: rows whose device times were not known yet were not written."""

import pytest
from stepscope.instrumentation.recording import ProcessKeys, Recording, RecordingMeta, RecordingWriter
from stepscope.instrumentation.recording.schema import LEDGER_COLUMNS

COPY = {
    "direction": "h2d", "size_bytes": 64, "src_kind": "pinned", "dst_kind": "device", "buffer": "block_table",
    "enqueue_start_ns": 1, "enqueue_end_ns": 2, "is_async": True,
}  # fmt: skip


def step(number):
    return (number, 100 * number, 100 * number + 50, *[None] * 24, False, True)


def copy(number):
    known = {"correlation": number + 1, **COPY}
    return (number, *(known.get(column.name) for column in LEDGER_COLUMNS["copies"]))


def phases(number):
    return [(number, name, 10, None, None, None, None, None) for name in ("preprocess", "forward", "sample")]


def killed(folder, device, source, known, closed=False):
    """A run of six steps, of which those below `known` have all of their rows, and the next one its copy alone."""
    process = ProcessKeys(host="box", pid=41, device=device, clock_id="c")
    writer = RecordingWriter(folder, RecordingMeta(source=source, device=device, process=process))
    writer.write({
        "steps": [step(number) for number in range(6)],
        "copies": [copy(number) for number in range(known + 1)],
        "phases": [row for number in range(known) for row in phases(number)] + phases(known)[:1],
    })  # fmt: skip
    writer._segments.close()
    if not closed:
        path = folder / "rows.seg"
        path.write_bytes(path.read_bytes()[:-5])  # the record that says so
    return Recording.load(folder)


def test_steps_whose_copies_and_phases_were_not_written_are_cut(tmp_path):
    read = killed(tmp_path, "cuda", "lab", known=3)
    assert read.table("steps")["step"].tolist() == [0, 1, 2]
    assert read.table("steps")["num_h2d"].tolist() == [1, 1, 1]
    assert read.meta.lacks[0].endswith("torn bytes cut, and 3 steps whose device times were not known yet")


@pytest.mark.parametrize(
    ("device", "source", "closed"), [("cpu", "lab", False), ("cuda", "my engine", False), ("cuda", "lab", True)]
)
def test_elsewhere_steps_stay(tmp_path, device, source, closed):
    """Where nothing waits for a device's clock, an engine's phases are its own matter, or the run came to its end."""
    read = killed(tmp_path, device, source, known=3, closed=closed)
    assert read.table("steps")["step"].tolist() == [0, 1, 2, 3, 4, 5]
    assert not any("device times" in why for why in read.meta.lacks)
