"""Files that hold a capture, but not as it is read: one line says what they are and what to do, whichever verb asks."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

TRACE = json.dumps({"traceEvents": []}).encode()


def a_database(path: Path) -> bytes:
    source = path.with_suffix(".db")
    with sqlite3.connect(source) as base:
        base.execute("create table t (a)")
    base.close()
    return gzip.compress(source.read_bytes())


def in_tar(path: Path, mode: str) -> bytes:
    source = path.with_suffix(".inside")
    source.write_bytes(TRACE)
    with tarfile.open(path, mode) as archive:
        archive.add(source, "t.json")
    return path.read_bytes()


def in_zip(path: Path) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("t.json", TRACE)
    return path.read_bytes()


CASES: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "zstd": (lambda _: b"\x28\xb5\x2f\xfd\x04\x00", "packed with zstd; unpack it first: zstd -d"),
    "xz": (lambda _: lzma.compress(TRACE), "packed with xz; unpack it first: xz -d"),
    "bzip2": (lambda _: bz2.compress(TRACE), "packed with bzip2; unpack it first: bzip2 -d"),
    "zip": (in_zip, "a zip archive; unpack it first: unzip"),
    "tar": (lambda path: in_tar(path, "w"), "a tar archive; unpack it first: tar -xf"),
    "tar.gz": (lambda path: in_tar(path, "w:gz"), "a tar archive; unpack it first: tar -xf"),
    "utf16": (lambda _: TRACE.decode().encode("utf-16"), "text in UTF-16; make it UTF-8 first"),
    "sqlite.gz": (a_database, "a packed data base (an nsys export, if it is a capture); unpack it first: gunzip"),
    "empty": (lambda _: b"", "the file is empty; capture or copy it again"),
    "lfs": (lambda _: b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS, not the file itself"),
}


@pytest.mark.parametrize("verb", ["report", "import"])
@pytest.mark.parametrize("kind", CASES)
def test_one_line_says_how_to_unpack(perf, tmp_path, kind, verb):
    make, words = CASES[kind]
    path = tmp_path / "capture.json.gz"
    path.write_bytes(make(path))
    ended = perf(verb, path)
    assert (ended.code, ended.out) == (2, "")
    assert f"{path}: {words}" in ended.err
    assert ended.err.count("\n") == 1


def test_damage_names_the_verb_that_can_salvage(perf, made, tmp_path):
    # GIVEN a trace that is cut; perf report has no --salvage
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [made.kernel(0, 10), made.kernel(20, 10)]})[:-30])
    assert "; perf import --salvage reads what is whole" in perf("report", path).err


def test_what_was_written_for_viewers_is_no_capture(perf, kineto, made, tmp_path):
    # GIVEN a capture as ui.perfetto.dev shows it: calls and copies are slices of no kind there
    path = kineto([made.call(12, 5, "cudaLaunchKernel", 1), made.kernel(20, 7, 1)])
    view = tmp_path / "view.json"
    assert perf("report", path, "--format", "perfetto", "-o", view).code == 0
    # THEN a report of it, with idle time and no copies, would be wrong
    ended = perf("report", view)
    assert ended.code == 2
    assert "perf report --format perfetto wrote this for viewers; give what it was made from" in ended.err


def test_a_folder_of_traces_is_the_ranks_of_one_run(perf, made, tmp_path, monkeypatch):
    # GIVEN what torch.profiler's tensorboard_trace_handler leaves: a file for each rank in one folder
    for rank in range(2):
        events = [made.call(12, 5, "cudaLaunchKernel", 1), made.kernel(20, 7, 1)]
        trace = {"distributedInfo": {"rank": rank}, "traceEvents": events}
        (tmp_path / f"worker{rank}.pt.trace.json").write_text(json.dumps(trace))
    # THEN perf report takes the folder as perf import does, also from within it
    text = perf("report", tmp_path, "--format", "text").out
    assert "Device 0 of rank 1: idle 0 %" in text
    monkeypatch.chdir(tmp_path)
    assert perf("report", ".").out.strip() == "report.html"
    assert tmp_path.name in (tmp_path / "report.html").read_text(encoding="utf-8").partition("</h1>")[0]
    # AND a folder of nothing says what it could hold
    (tmp_path / "empty").mkdir()
    assert "no folder of recordings and no traces (*.json, *.json.gz)" in perf("report", "empty").err
