"""The library of the probe in C: compiled once, kept where nobody else writes, and no process ends by it."""

import subprocess
import sys
from pathlib import Path

import pytest
from stepscope.instrumentation.probe import native as native_module
from stepscope.instrumentation.probe.native import EVENTS_SWITCH, SWITCH, look, native, native_events

needs_compiler = pytest.mark.skipif(native() is None, reason="no C compiler, or no Python.h")


@pytest.fixture(autouse=True)
def switches(monkeypatch):
    for name in (SWITCH, EVENTS_SWITCH):
        monkeypatch.delenv(name, raising=False)


def test_without_a_compiler_it_is_done_in_python_and_why_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "false")
    assert look.__wrapped__() == (None, "false failed: 1")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no-such-compiler" in look.__wrapped__()[1]
    assert list(tmp_path.glob("stepscope/*")) == []


def test_without_a_home_it_is_done_in_python(monkeypatch):
    # GIVEN a user without a home, as containers have them
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(native_module.Path, "home", nowhere)
    assert look.__wrapped__() == (None, "Could not determine home directory.")


@needs_compiler
def test_a_damaged_library_is_compiled_again(monkeypatch, tmp_path):
    # GIVEN a cache whose library was cut off, emptied, or changed in one bit
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native_module, "_compile", lambda target: target.write_bytes(b"library"))
    library = native_module._compiled()
    whole = library.read_bytes()
    flipped = bytes([whole[0] ^ 1]) + whole[1:]
    for damaged in (b"", whole[:3], whole[:-1], flipped, whole + b"x"):
        library.write_bytes(damaged)
        assert native_module._compiled().read_bytes() == whole
    # AND with one that is not to be loaded it is not done in Python without a word, but compiled
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library.write_bytes(whole[:3])
    assert look.__wrapped__()[0] is not None
    assert library.stat().st_size > 10_000


@needs_compiler
def test_it_is_compiled_once(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert look.__wrapped__()[0] is not None
    monkeypatch.setenv("CC", "false")
    assert look.__wrapped__()[0] is not None
    assert len(list(tmp_path.glob("stepscope/*"))) == 1
    monkeypatch.setenv(SWITCH, "0")
    assert look.__wrapped__() == (None, f"{SWITCH} is 0")


def script(path, *lines):
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return str(path)


def test_the_line_with_the_error_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = "echo 'In file included from hot_path.c:8:' >&2", "echo 'notes.h:4: fatal error: Python.h: No such file' >&2"
    monkeypatch.setenv("CC", compiler := script(tmp_path / "cc", *said, '[ "$LC_ALL" = C ] && exit 1'))
    assert look.__wrapped__() == (None, f"{compiler} failed: notes.h:4: fatal error: Python.h: No such file")


@needs_compiler
def test_what_a_wrong_compiler_made_is_not_kept(monkeypatch, tmp_path):
    # GIVEN one for another machine: it succeeds, and this interpreter cannot load what it made
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", script(tmp_path / "cc", 'for last; do :; done', 'cp /bin/true "$last"'))
    assert look.__wrapped__()[0] is None
    assert list((tmp_path / "cache" / "stepscope").iterdir()) == []
    monkeypatch.delenv("CC")
    assert look.__wrapped__()[0] is not None


def test_a_cache_that_cannot_be_written_is_told(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    module, reason = look.__wrapped__()
    assert module is None
    assert str(tmp_path / "file") in reason


def test_where_others_may_write_nothing_is_run(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "stepscope"
    folder.mkdir()
    folder.chmod(0o777)
    refused = None, f"others may write into {folder}; set XDG_CACHE_HOME to a folder of yours"
    assert look.__wrapped__() == refused
    folder.chmod(0o755)
    monkeypatch.setattr(native_module.os, "geteuid", lambda: folder.stat().st_uid + 1)
    monkeypatch.setattr(native_module, "ROOT", -1)
    assert look.__wrapped__() == refused


@needs_compiler
def test_a_relative_cache_does_not_count(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert Path(look.__wrapped__()[0].__file__).parent == tmp_path / "home" / ".cache" / "stepscope"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_an_interpreter_without_its_lock_keeps_without(monkeypatch):
    known = native_module.sysconfig.get_config_var
    told = lambda name: name == "Py_GIL_DISABLED" or known(name)  # noqa: E731
    monkeypatch.setattr(native_module.sysconfig, "get_config_var", told)
    module, reason = look.__wrapped__()
    assert module is None
    assert "lock" in reason


TWO_OF_THEM = """
import sys, types
sys.modules["hot_path"] = engine = types.ModuleType("hot_path")
from stepscope.instrumentation.probe.native import look
one, other = look.__wrapped__()[0], look.__wrapped__()[0]
assert one is not None and one.Notes is other.Notes
assert sys.modules["hot_path"] is engine and vars(engine).keys() == vars(types.ModuleType("")).keys()
"""


@needs_compiler
def test_an_engine_may_have_a_module_of_that_name_and_copies_of_the_package_share_ours():
    subprocess.run([sys.executable, "-c", TWO_OF_THEM], check=True)


@needs_compiler
def test_processes_that_compile_at_once_all_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = "from stepscope.instrumentation.probe.native import native; assert native() is not None"
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(list(tmp_path.glob("stepscope/*"))) == 1


@needs_compiler
def test_events_alone_may_be_pythons(monkeypatch):
    assert native_events() is native() is not None
    monkeypatch.setenv(EVENTS_SWITCH, "0")
    assert native_events() is None
    assert native() is not None


def test_a_folder_whose_name_is_no_text_ends_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caf\udce9"))
    monkeypatch.setattr(native_module.sysconfig, "get_path", lambda name: "/caf\udce9/include")
    monkeypatch.setenv("CC", "false")
    assert look.__wrapped__() == (None, "false failed: 1")
