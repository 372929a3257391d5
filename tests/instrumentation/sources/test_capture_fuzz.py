"""Mutated captures: cut, bits flipped, types swapped. Never a traceback, never a negative total.

`make fuzz` runs 20,000 mutations; the suite 300. STEPSCOPE_FUZZ_PIECE=n takes others: 20,000 can be run in pieces.
"""

import gzip
import json
import os
import random
import sqlite3
from collections import Counter

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.errors import StepscopeError
from stepscope.instrumentation.sources import CaptureOptions, read_capture

MUTATIONS = int(os.environ.get("STEPSCOPE_FUZZ", "300"))
PIECE = 1000 * int(os.environ.get("STEPSCOPE_FUZZ_PIECE", "0"))
SALVAGE = CaptureOptions(salvage=True)
JSON_VALUES = (None, 0, -1, 1e300, 2**70, "x", "", [], {}, True, "12", 3.5, [1, {}])
SQL_VALUES = (None, 0, -1, 2**63 - 1, -(2**63), 3.7, 1e300, "x", "12", b"\xff\xfe", "a\nb", "", 5)


def events(made):
    found = []
    for n in range(12):
        at = 1000 * n
        found += [
            made.event("user_annotation", f"execute_context_0(0)_generation_{n}({n})", at, 900),
            made.event("user_annotation", "gpu_model_runner: forward", at + 300, 300),
            made.call(at + 10, 5, "cudaMemcpyAsync", 10 * n + 1),
            made.copy(at + 20, 8.5, "HtoD (Pinned -> Device)", correlation=10 * n + 1),
            made.call(at + 310, 20, "cudaGraphLaunch", 10 * n + 2),
            *(made.kernel(at + 350 + 50 * k, 45.25, 10 * n + 2, name=f"k{k}") for k in range(4)),
            made.call(at + 700, 30, "cudaStreamSynchronize", 10 * n + 3),
        ]
    return found


def check(path, options=None):
    """Whether it imports. Whatever happens, it happens in one line, and no total is negative."""
    refusal, found = None, None
    try:
        capture = read_capture(path, options)
        found = capture_figures(capture.tables, capture.meta)
    except StepscopeError as error:
        refusal = str(error)
    if found is None:
        assert "\n" not in refusal
        return False
    totals = [(own.window_ns, own.busy_ns or 0, own.idle_ns or 0, own.kernel_union_ns or 0) for own in found.devices]
    totals += [(own.sum_ns, own.union_ns) for own in found.copies]
    totals += [(own.hidden_under_kernels_ns or 0, own.size_bytes or 0) for own in found.copies]
    totals += [(own.total_ns, own.gpu_sum_ns or 0, own.projected_ns or 0) for own in found.ranges]
    totals += [(own.idle_ns, own.late_ns or 0, *(share.idle_ns for share in own.host)) for own in found.gaps]
    totals += [(own.total_ns,) for own in found.syncs or ()]
    assert all(value >= 0 for values in totals for value in values)
    return True


class Valid:
    """Counts how many mutations that left a valid file import."""

    def __init__(self):
        self.counts = Counter()

    def add(self, valid, imported):
        if valid:
            self.counts[imported] += 1

    def judge(self):
        assert self.counts[True] >= 0.95 * self.counts.total() > 0, self.counts


def flipped(rng, text):
    raw = bytearray(text)
    for _ in range(rng.choice((1, 1, 3, 20))):
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(raw)


def swapped(rng, events):
    found = json.loads(json.dumps(events))
    for _ in range(rng.choice((1, 3, 30))):
        target = rng.choice(found)
        if isinstance(target.get("args"), dict) and target["args"] and rng.random() < 0.4:
            target = target["args"]
        target[rng.choice(list(target))] = rng.choice(JSON_VALUES)
    return json.dumps({"schemaVersion": 1, "traceEvents": found}).encode()


def test_mutated_traces(made, tmp_path):
    rng, base, valid = random.Random(PIECE + 5), events(made), Valid()
    text = json.dumps({"schemaVersion": 1, "traceEvents": base}).encode()
    path = tmp_path / "t.json"
    for number in range(MUTATIONS // 2):
        kind = number % 4
        if kind == 0:
            raw = text[: rng.randrange(len(text))]
        elif kind == 1:
            raw = flipped(rng, text)
        elif kind == 2:
            raw = swapped(rng, base)
        else:
            raw = flipped(rng, gzip.compress(text, 1))
        path.write_bytes(raw)
        imported = check(path)
        valid.add(is_json(raw), imported)
        if not imported and number % 3 == 0:
            check(path, SALVAGE)
    valid.judge()


def is_json(raw):
    try:
        found = json.loads(raw)
    except ValueError:
        return False
    return isinstance(found, dict) and isinstance(found.get("traceEvents"), list)


def build(export):
    for n in range(12):
        at = 1_000_000 + 1000 * n
        export.range(at, at + 900, f"execute_context_0(0)_generation_{n}({n})")
        export.range(at + 300, at + 600, "gpu_model_runner: forward", registered=True)
        export.call(at + 10, at + 15, "cudaMemcpyAsync_v3020", correlation=10 * n + 1)
        export.copy(at + 20, at + 28, correlation=10 * n + 1)
        export.call(at + 310, at + 330, "cudaLaunchKernel_v7000", correlation=10 * n + 2)
        export.kernel(at + 350, at + 500, correlation=10 * n + 2)
        export.call(at + 700, at + 730, "cudaStreamSynchronize_v3020", correlation=10 * n + 3)
    export.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.20.3")
    return export.path.read_bytes()


def altered(rng, path):
    """Values of other types, columns and tables that are gone."""
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for _ in range(rng.choice((1, 2))):
        table = rng.choice(tables)
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column, choice = rng.choice(columns) if columns else "start", rng.random()
        try:
            if choice < 0.1:
                connection.execute(f"DROP TABLE {table}")
            elif choice < 0.2:
                connection.execute(f'ALTER TABLE {table} DROP COLUMN "{column}"')
            else:
                where = f" WHERE rowid % 7 = {rng.randrange(7)}" if choice < 0.8 else ""
                connection.execute(f'UPDATE {table} SET "{column}" = ?{where}', (rng.choice(SQL_VALUES),))
        except sqlite3.Error:
            continue
    connection.commit()
    connection.close()


def test_mutated_exports(export, tmp_path):
    rng, base, valid = random.Random(PIECE + 6), build(export), Valid()
    path = tmp_path / "mutated.sqlite"
    for number in range(MUTATIONS // 2):
        kind = number % 3
        path.write_bytes(base[: rng.randrange(len(base))] if kind == 0 else flipped(rng, base) if kind == 1 else base)
        if kind == 2:
            altered(rng, path)
        valid.add(is_whole(path), check(path))
    valid.judge()


def is_whole(path):
    """A database without a fault in which something can have been measured."""
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        whole = connection.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
        if whole:
            connection.execute("SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
        connection.close()
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    return whole


@pytest.mark.parametrize("seed", range(5))
def test_a_byte_of_an_unrelated_string_changes_no_total(made, tmp_path, seed):
    rng, base = random.Random(seed), events(made)
    path = tmp_path / "t.json"
    results = []
    for name in ("k1", "k1", "q" + rng.choice("abcdefgh")):
        path.write_text(json.dumps({"traceEvents": base}).replace('"k1"', f'"{name}"'))
        capture = read_capture(path)
        found = capture_figures(capture.tables, capture.meta)
        results.append((found.devices, found.copies, found.gaps[0].late_ns, found.queue))
    assert results[0] == results[1] == results[2]
