"""Segments: every row back, a torn tail cut and counted, a full disk survived, a kill survived."""

import errno
import os
import signal
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from stepscope.instrumentation.probe import segments
from stepscope.instrumentation.probe.segments import SegmentError, SegmentWriter, read_segments

BASE = 2**60
ROWS = [(7, "host:main", None, BASE + 1, True, 0.5), (None, 'quote " and \n', -1, 2**63 - 1, False, None)]


def write(path, **options):
    writer = SegmentWriter(path, **options)
    writer.add("spans", ROWS)
    writer.flush()
    writer.add("steps", [(1, 2)])
    writer.add("spans", [(9, "later", None, 0, False, 1e-300)])
    writer.close()
    return writer


def test_rows_come_back_exactly_and_in_order(tmp_path):
    write(tmp_path / "a.seg")
    content = read_segments(tmp_path / "a.seg")
    assert content.rows == {"spans": [*ROWS, (9, "later", None, 0, False, 1e-300)], "steps": [(1, 2)]}
    assert (content.dropped_rows, content.torn_bytes, content.closed) == (0, 0, True)


def test_numpy_scalars_become_plain(tmp_path):
    writer = SegmentWriter(tmp_path / "a.seg")
    writer.add("steps", [(np.int64(BASE + 1), np.float64(0.25), np.bool_(True), np.int32(-5))])
    writer.close()
    (row,) = read_segments(tmp_path / "a.seg").rows["steps"]
    assert row == (BASE + 1, 0.25, True, -5)
    assert [type(value) for value in row] == [int, float, bool, int]


def test_truncated_at_every_byte(tmp_path):
    # GIVEN a small file and the places where its records end
    whole = tmp_path / "a.seg"
    write(whole)
    data = whole.read_bytes()
    ends, position = [10], 10
    while position < len(data):
        position += 8 + struct.unpack_from("<I", data, position)[0]
        ends.append(position)
    assert ends[-1] == len(data)
    rows_at = {0: 0, 1: 2, 2: 3, 3: 4, 4: 4}  # records: two spans, one step, one span, the closing note
    assert len(ends) == 5
    # WHEN it is cut at any byte
    torn = tmp_path / "torn.seg"
    for cut in range(len(data)):
        torn.write_bytes(data[:cut])
        content = read_segments(torn)
        # THEN whole records are read and the rest is counted
        whole_records = sum(end <= cut for end in ends) - 1
        assert sum(map(len, content.rows.values())) == rows_at[max(whole_records, 0)], cut
        assert content.torn_bytes == cut - (ends[whole_records] if whole_records >= 0 else 0)
        assert not content.closed


def test_where_the_file_is_cut_no_step_lacks_its_rows(tmp_path):
    # GIVEN what a ledger hands over, steps first, in two flushes
    whole = tmp_path / "a.seg"
    writer = SegmentWriter(whole)
    for first in (0, 300):
        numbers = range(first, first + 300)
        writer.add("steps", [(number,) for number in numbers])
        writer.add("phases", [(number, "forward") for number in numbers])
        writer.add("copies", [(number, "h2d") for number in numbers])
        writer.flush()
    writer.close()
    data, seen = whole.read_bytes(), set()
    # WHEN a kill cuts it anywhere
    for cut in range(10, len(data), 37):
        (tmp_path / "torn.seg").write_bytes(data[:cut])
        rows = read_segments(tmp_path / "torn.seg").rows
        steps = {row[0] for row in rows.get("steps", ())}
        seen.add(len(steps))
        # THEN each step that is there has done what it did
        for table in ("phases", "copies"):
            assert steps <= {row[0] for row in rows.get(table, ())}
    assert {0, 300} < seen


def test_a_flipped_bit_ends_the_file_at_its_record(tmp_path):
    path = tmp_path / "a.seg"
    write(path)
    data = bytearray(path.read_bytes())
    first_end = 18 + struct.unpack_from("<I", data, 10)[0]
    data[first_end + 12] ^= 4
    path.write_bytes(data)
    content = read_segments(path)
    assert content.rows == {"spans": ROWS}
    assert content.torn_bytes == len(data) - first_end


def test_zeros_behind_the_last_record_are_torn(tmp_path):
    path = tmp_path / "a.seg"
    write(path)
    with path.open("ab") as out:
        out.write(bytes(64))
    assert zlib.crc32(b"") == 0  # why eight zero bytes would look like a good record
    assert read_segments(path).torn_bytes == 64


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"PAR1 something else", "not a segment file"), (b"x", "not a segment file"), (b"STEPSEG\n\x02\x00", "version 2")],
)
def test_foreign_files(tmp_path, content, message):
    path = tmp_path / "a.seg"
    path.write_bytes(content)
    with pytest.raises(SegmentError, match=message):
        read_segments(path)


def test_flush_when_a_second_has_passed(tmp_path):
    writer = SegmentWriter(tmp_path / "a.seg")
    flushed = []
    writer.flush = lambda: flushed.append(now)
    for now in (BASE, BASE + 999_999_999, BASE + 1_000_000_000, BASE + 1_500_000_000, BASE + 3_000_000_000):
        writer.flush_if_due(now)
    assert [when - BASE for when in flushed] == [1_000_000_000, 3_000_000_000]
    del writer.flush
    writer.close()


def test_what_does_not_fit_into_memory_is_dropped_and_counted(tmp_path):
    # GIVEN room for two rows of six values
    writer = SegmentWriter(tmp_path / "a.seg", capacity_bytes=2 * 6 * 40)
    writer.add("spans", ROWS)
    writer.add("spans", ROWS)
    assert writer.dropped_rows == 2
    writer.close()
    content = read_segments(tmp_path / "a.seg")
    assert content.rows == {"spans": ROWS}
    assert (content.dropped_rows, content.closed) == (2, True)


def test_written_rows_make_room_again(tmp_path):
    writer = SegmentWriter(tmp_path / "a.seg", capacity_bytes=2 * 6 * 40)
    for _ in range(50):
        writer.add("spans", ROWS)
        writer.flush()
        while writer._held_bytes:
            os.sched_yield()
    writer.close()
    assert writer.dropped_rows == 0
    assert len(read_segments(tmp_path / "a.seg").rows["spans"]) == 100


def test_a_full_disk_drops_and_counts_and_later_rows_are_readable(tmp_path, monkeypatch):
    # GIVEN a disk that takes half of the first record, then nothing, then everything again
    real, calls = os.pwrite, []

    def failing(fd, data, offset):
        calls.append(offset)
        if len(calls) == 2:
            return real(fd, data[: len(data) // 2], offset)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, offset)

    monkeypatch.setattr(segments.os, "pwrite", failing)
    writer = write(tmp_path / "a.seg")  # WHEN rows are added, nothing raises
    content = read_segments(tmp_path / "a.seg")
    # THEN the two rows of the torn record are gone and counted, the rest is whole
    assert writer.dropped_rows == content.dropped_rows == 2
    assert content.rows == {"steps": [(1, 2)], "spans": [(9, "later", None, 0, False, 1e-300)]}
    assert content.closed


def test_a_folder_that_takes_nothing_fails_at_once(tmp_path):
    with pytest.raises(OSError, match="Is a directory"):
        SegmentWriter(tmp_path)


CHILD = """
import os, sys
from stepscope.instrumentation.probe.segments import SegmentWriter
writer = SegmentWriter(sys.argv[1])
for number in range(10**9):
    writer.add("steps", [(number, 2**60 + number, None)])
    writer.flush_if_due(number * 1_000_000)
    if number == 5_000:
        while writer._held_bytes:
            os.sched_yield()
        print("go", flush=True)
"""


def test_kill_9_leaves_a_readable_file(tmp_path):
    # GIVEN a process that writes a step a millisecond of its own clock, so that it flushes a thousand at a time
    path = tmp_path / "a.seg"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, env=environment)
    try:
        assert child.stdout.readline() == b"go\n"
    finally:
        child.send_signal(signal.SIGKILL)  # WHEN it is killed at some moment
        child.wait()
        child.stdout.close()
    content = read_segments(path)
    # THEN what reached the file is whole and without gaps, and holds all that was flushed before "go"
    steps = content.rows["steps"]
    assert steps == [(number, 2**60 + number, None) for number in range(len(steps))]
    assert len(steps) >= 5_000
    assert not content.closed
