"""How fast captures are read, beside HTA and beside decoding alone: `python benchmarks/capture_load.py --hta PYTHON`.

    ours   read_capture: file to the tables of a Recording, in memory
    HTA    TraceAnalysis(trace_files={0: PATH}) of HolisticTraceAnalysis, by the interpreter of its own environment
    raw    gunzip and msgspec's typed decoding with numbers left as tokens: the least that a reader has to do

Every run is a process of its own, the three take turns; imports are not part of any time. Traces: one of the shared
captures, that one seven times over (1.5 million events), and that one with as many events again, and four times as
many, of a category that is left out. The export is a shared one whose rows are repeated until there are 3 million.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

TRACE = "kineto_v100_hta_df_index_216k.json.gz"
EXPORT = "nsys-3.20.3_h200_vllm026_v1_node.sqlite"
EXPORT_ROWS = 3_000_000
COPIES = 7
REPEATED = ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "SYNCHRONIZATION")

TAIL = """
import json
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print("RESULT", json.dumps([wall, cpu, int(peak.split()[1]) / 1024]))
"""
TIMED = """
wall, cpu = time.perf_counter(), time.process_time()
{work}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
"""
OURS = (
    "import sys, time\nfrom pathlib import Path\nfrom stepscope.instrumentation.sources import read_capture\n"
    + TIMED.format(work="kept = read_capture(Path(sys.argv[1]))")
    + TAIL
)
HTA = (
    "import sys, time\nfrom hta.trace_analysis import TraceAnalysis\n"
    + TIMED.format(work="kept = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir='.')")
    + TAIL
)
RAW = (
    """import gzip, sys, time, msgspec
class Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: msgspec.Raw = msgspec.Raw()
    dur: msgspec.Raw = msgspec.Raw()
    pid: msgspec.Raw = msgspec.Raw()
    tid: msgspec.Raw = msgspec.Raw()
    args: msgspec.Raw = msgspec.Raw()
class Trace(msgspec.Struct):
    traceEvents: list[Event]
"""
    + TIMED.format(work="kept = msgspec.json.decode(gzip.open(sys.argv[1]).read(), type=Trace)")
    + TAIL
)


def measure(python: str, code: str, path: Path) -> list[float]:
    """(wall s, CPU s, peak MiB) of one process that reads the file."""
    done = subprocess.run([python, "-c", code, str(path)], capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not found:
        raise SystemExit(f"{python} on {path}: {done.stderr[-2000:]}")
    return [float(value) for value in json.loads(found[-1][7:])]


def repeated(trace: dict, times: int) -> Iterator[dict]:
    """The trace's events, `times` over, one copy behind the other and with correlations of their own."""
    timed = [event for event in trace["traceEvents"] if event.get("ph") == "X" and event.get("ts")]
    span = max(event["ts"] + event["dur"] for event in timed) - min(event["ts"] for event in timed)
    top = max(event.get("args", {}).get("correlation", 0) for event in timed)
    for copy in range(times):
        for event in trace["traceEvents"]:
            moved = dict(event)
            if event.get("ts"):
                moved["ts"] = event["ts"] + copy * (span + 1000)
            if "correlation" in event.get("args", {}):
                moved["args"] = event["args"] | {"correlation": event["args"]["correlation"] + copy * top}
            yield moved


def with_others(trace: dict, times: int) -> Iterator[dict]:
    """The trace's events, and for each of them `times` events of Python functions, which no figure needs."""
    for number, event in enumerate(trace["traceEvents"]):
        yield event
        for copy in range(times):
            yield {
                "ph": "X", "cat": "python_function", "name": f"module.py({copy}): function_{number % 997}", "pid": 1,
                "tid": 1, "ts": event.get("ts") or 0, "dur": 3, "args": {"Python id": number, "Python parent id": copy},
            }  # fmt: skip


def write_trace(path: Path, trace: dict, events: Iterator[dict]) -> int:
    count = 0
    head = {key: value for key, value in trace.items() if key != "traceEvents"}
    with gzip.open(path, "wt", compresslevel=6) as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [')
        for count, event in enumerate(events, start=1):
            file.write((", " if count > 1 else "") + json.dumps(event))
        file.write("]}")
    return count


def write_export(source: Path, path: Path, rows: int) -> int:
    """The export with its activities and ranges repeated until it holds `rows` rows of them."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"PRAGMA journal_mode=off; PRAGMA synchronous=off; ATTACH '{source}' AS s")
        tables = database.execute("SELECT name, sql FROM s.sqlite_master WHERE type = 'table'").fetchall()
        many = [name for name, _ in tables if name == "NVTX_EVENTS" or name.endswith(REPEATED)]
        own = sum(database.execute(f'SELECT count(*) FROM s."{name}"').fetchone()[0] for name in many)
        ends = [database.execute(f'SELECT max("end") FROM s."{name}"').fetchone()[0] or 0 for name in many]
        for name, sql in tables:
            database.execute(sql)
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{name}")')]
            for copy in range(-(-rows // own) if name in many else 1):
                moved = {"start": copy * max(ends), "end": copy * max(ends), "correlationId": copy * 100_000}
                taken = ", ".join(f'"{column}" + {moved.get(column, 0)}' if column in moved else f'"{column}"'
                                  for column in columns)  # fmt: skip
                database.execute(f'INSERT INTO "{name}" SELECT {taken} FROM s."{name}"')
        database.commit()
        return sum(int(database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]) for name in many)


def compare(path: Path, readers: dict[str, tuple[str, str]], repeats: int) -> dict[str, list[list[float]]]:
    found: dict[str, list[list[float]]] = {name: [] for name in readers}
    for _ in range(repeats):
        for name, (python, code) in readers.items():
            found[name].append(measure(python, code, path))
    return found


def row(title: str, events: int, found: dict[str, list[list[float]]]) -> str:
    """A line of the table: medians, and the ratio of what ran side by side with its range."""
    cells = [title, f"{events:,}"]
    for name in ("ours", "HTA", "raw"):
        runs = found.get(name)
        cells.append("" if not runs else " / ".join((
            f"{statistics.median(run[0] for run in runs):.2f}", f"{statistics.median(run[1] for run in runs):.2f}",
            f"{max(run[2] for run in runs):.0f}",
        )))  # fmt: skip
    for name in ("HTA", "raw"):
        for column in (0, 1):
            ratios = sorted(
                other[column] / own[column] for own, other in zip(found["ours"], found.get(name, ()), strict=False)
            )
            cells.append(f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else "")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=Path, default=Path(__file__).parents[1] / ".." / "shared" / "captures")
    parser.add_argument("--hta", help="Python of an environment with HolisticTraceAnalysis 0.5.0 and pandas 2.3")
    parser.add_argument("--work", type=Path, required=True, help="folder for the big files; kept for the next run")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-big", action="store_true", help="leave out the file of 1.5 million events")
    parser.add_argument("--out", type=Path, help="raw figures, JSON")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    started = time.strftime("%Y-%m-%d %H:%M")
    with gzip.open(asked.captures / TRACE) as file:
        trace = json.load(file)
    own = len(trace["traceEvents"])
    big, double, many = (asked.work / f"{name}.json.gz" for name in ("times7", "others1", "others4"))
    made = ((big, repeated(trace, COPIES)), (double, with_others(trace, 1)), (many, with_others(trace, 4)))
    for path, events in made:
        if not path.exists():
            write_trace(path, trace, events)
    export = asked.work / "rows3m.sqlite"
    rows = write_export(asked.captures / EXPORT, export, EXPORT_ROWS)
    ours, raw = (sys.executable, OURS), (sys.executable, RAW)
    both = {"ours": ours, "raw": raw} | ({"HTA": (asked.hta, HTA)} if asked.hta else {})
    print("| file | events | ours: wall s / CPU s / MiB | HTA | raw decoding | HTA / ours, wall | HTA / ours, CPU "
          "| raw / ours, wall | raw / ours, CPU |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    result = {"started": started, "python": platform.python_version(), "cores": os.cpu_count(), "runs": {}}
    for title, path, events, readers in [
        (TRACE, asked.captures / TRACE, own, both),
        (f"the same, {COPIES} times", big, own * COPIES, both),
        ("the first and 1 event of Python for each of its", double, own * 2, {"ours": ours}),
        ("the first and 4 events of Python for each of its", many, own * 5, {"ours": ours}),
        ("nsys export, rows repeated", export, rows, {"ours": ours}),
    ]:
        if asked.no_big and path == big:
            continue
        repeats = asked.repeats if events == own else max(1, asked.repeats // 2)
        found = compare(path, readers, repeats)
        result["runs"][title] = {"events": events, "wall_cpu_mib": found}
        print(row(title, events, found), flush=True)
    print("load average at the end:", " ".join(f"{value:.1f}" for value in os.getloadavg()))
    if asked.out:
        asked.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
