"""Reports (.nsys-rep) and streams that nobody finished (.qdstrm): which tools are found, and what they are given."""

import sys

import pytest
from stepscope.errors import MeasurementError, UsageError
from stepscope.instrumentation.sources import read_capture, reading
from stepscope.instrumentation.sources.nsys import report_file
from stepscope.instrumentation.sources.nsys.report_file import read_report
from stepscope.instrumentation.sources.nsys.tools import NsysTools, find_tools

SECRET = "hunter2-in-the-output"
COMPUTE = "nvidia/nsight-compute/2025.3.1/host"

COPIES_TO_OUTPUT = """#!{python}
import shutil, sys
open({told!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
output = next(word.partition("=")[2] for word in sys.argv if word.startswith("--output="))
shutil.copy(sys.argv[-1], output)
"""
FINISHES = """#!{python}
import shutil, sys
open({told!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
shutil.copy(sys.argv[sys.argv.index("-i") + 1], sys.argv[sys.argv.index("-o") + 1])
"""
FAILS = """#!{python}
import sys
print({secret!r}); print({secret!r}, file=sys.stderr)
sys.exit(7)
"""
DOES_NOTHING = """#!{python}
"""


@pytest.fixture
def told(tmp_path):
    return tmp_path / "told.txt"


@pytest.fixture
def program(tmp_path, told):
    """`program(text, where)` writes an executable below the test's folder."""

    def make(text, where):
        path = tmp_path / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(python=sys.executable, told=str(told), secret=SECRET))
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def report(tmp_path, export):
    """`report(ending)`: a file that the tools above turn into an export by copying it."""

    def make(ending):
        export.call(0, 5, "cudaLaunchKernel_v7000", correlation=1)
        export.kernel(10, 40, correlation=1)
        path = tmp_path / f"capture{ending}"
        path.write_bytes(export.path.read_bytes())
        return path

    return make


def nobody(tmp_path):
    return find_tools([tmp_path], path=str(tmp_path / "nowhere"))


class TestReading:
    def test_a_report_is_exported_and_read(self, program, report, told, tmp_path):
        tools = NsysTools(program(COPIES_TO_OUTPUT, "bin/nsys"), None)
        trace = read_report(report(".nsys-rep"), tools)
        assert trace.device.end.tolist() == [40]
        (line,) = told.read_text().splitlines()
        assert line.startswith("export --type=sqlite --force-overwrite=true --output=")
        assert line.endswith(f" {tmp_path / 'capture.nsys-rep'}")
        # and nothing is left beside the report
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "bin", "capture.nsys-rep", "capture.sqlite", "told.txt"
        ]  # fmt: skip

    def test_a_stream_is_finished_first(self, program, report, told):
        tools = NsysTools(program(COPIES_TO_OUTPUT, "bin/nsys"), program(FINISHES, "host/QdstrmImporter"))
        path = report(".qdstrm")
        assert read_report(path, tools).device.end.tolist() == [40]
        finished, exported = told.read_text().splitlines()
        assert finished.startswith(f"-i {path} -o ")
        assert exported.endswith(finished.split()[-1])

    @pytest.mark.parametrize("ending", [".nsys-rep", ".qdrep"])
    def test_read_capture_takes_it_by_its_ending(self, program, report, monkeypatch, ending):
        tools = NsysTools(program(COPIES_TO_OUTPUT, "bin/nsys"), None)
        monkeypatch.setattr(report_file, "find_tools", lambda: tools)
        found = read_capture(report(ending))
        assert found.meta.source == "nsys"
        assert found.tables["spans"].num_rows == 2

    def test_an_export_with_the_ending_of_a_report_needs_no_nsys(self, report, monkeypatch):
        """What a file is, its content says."""
        monkeypatch.setattr(report_file, "find_tools", lambda: NsysTools(None, None))
        assert read_capture(report(".nsys-rep")).meta.source == "nsys"


@pytest.fixture
def made_up(tmp_path):
    """Reports as they are: no database."""

    def make(name):
        path = tmp_path / name
        path.write_bytes(b"QDSTRM\x00\x01 not an export")
        return path

    return make


def refused(path, tools, error, message):
    with pytest.raises(error, match=message) as raised:
        read_report(path, tools)
    text = str(raised.value)
    assert str(path) in text
    assert "\n" not in text
    assert SECRET not in text
    return text


class TestRefusals:
    def test_no_nsys_anywhere(self, made_up, tmp_path):
        text = refused(made_up("a.nsys-rep"), nobody(tmp_path), UsageError, "reading a report takes nsys")
        assert "nsys export -t sqlite a.nsys-rep" in text

    def test_nsys_fails_and_what_it_printed_is_not_passed_on(self, made_up, program):
        refused(made_up("a.nsys-rep"), NsysTools(program(FAILS, "nsys"), None), UsageError, "exit code 7")

    def test_nsys_makes_no_file(self, made_up, program):
        tools = NsysTools(program(DOES_NOTHING, "nsys"), None)
        refused(made_up("a.nsys-rep"), tools, UsageError, "made no SQLite file")

    def test_nsys_makes_something_else(self, made_up, program):
        tools = NsysTools(program(COPIES_TO_OUTPUT, "nsys"), None)
        with pytest.raises(UsageError, match="no SQLite database"):
            read_report(made_up("a.nsys-rep"), tools)

    def test_a_program_that_cannot_be_run(self, made_up, tmp_path):
        tools = NsysTools(tmp_path / "gone", None)
        refused(made_up("a.nsys-rep"), tools, UsageError, "cannot be run")

    def test_a_program_that_hangs(self, made_up, program, monkeypatch):
        monkeypatch.setattr(report_file, "_TIMEOUT_S", 0.05)
        tools = NsysTools(program("#!{python}\nimport time\ntime.sleep(60)\n", "nsys"), None)
        refused(made_up("a.nsys-rep"), tools, UsageError, "did not end within")

    def test_a_lone_stream_is_an_incomplete_capture(self, made_up, program):
        """Case 28: workers were killed before the profiler made a report of what they did."""
        tools = NsysTools(program(COPIES_TO_OUTPUT, "nsys"), None)
        refused(made_up("a.qdstrm"), tools, MeasurementError, "incomplete capture.*no QdstrmImporter")

    @pytest.mark.parametrize(("text", "message"), [(FAILS, "its importer failed"), (DOES_NOTHING, "made no report")])
    def test_an_importer_that_finishes_nothing(self, made_up, program, text, message):
        tools = NsysTools(program(COPIES_TO_OUTPUT, "nsys"), program(text, "QdstrmImporter"))
        refused(made_up("a.qdstrm"), tools, MeasurementError, f"incomplete capture.*{message}")

    def test_a_pointer_of_git_lfs_is_told_as_that(self, tmp_path):
        path = tmp_path / "a.nsys-rep"
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
        with pytest.raises(UsageError, match="pointer of Git LFS"):
            reading.read_capture(path)


class TestTools:
    def test_nothing_is_found_where_nothing_is(self, tmp_path):
        assert nobody(tmp_path) == NsysTools(None, None)

    def test_the_one_on_the_path_goes_first_and_brings_its_importer(self, program, tmp_path):
        own = program(DOES_NOTHING, "sdk/target-linux-x64/nsys")
        importer = program(DOES_NOTHING, "sdk/host-linux-x64/QdstrmImporter")
        program(DOES_NOTHING, "nvidia/nsight-systems/2026.1.1/bin/nsys")
        found = find_tools([tmp_path / "nvidia"], path=str(own.parent))
        assert found == NsysTools(own, importer)

    def test_a_link_on_the_path_leads_to_its_installation(self, program, tmp_path):
        own = program(DOES_NOTHING, "sdk/target-linux-x64/nsys")
        importer = program(DOES_NOTHING, "sdk/host-linux-x64/QdstrmImporter")
        (tmp_path / "links").mkdir()
        (tmp_path / "links" / "nsys").symlink_to(own)
        assert find_tools([], path=str(tmp_path / "links")).importer == importer

    def test_the_newest_counts_by_number_and_not_by_letter(self, program, tmp_path):
        program(DOES_NOTHING, "nvidia/nsight-systems/2024.9.1/bin/nsys")
        newest = program(DOES_NOTHING, "nvidia/nsight-systems/2024.10.1/bin/nsys")
        assert find_tools([tmp_path / "nvidia"], path="").nsys == newest

    def test_the_one_inside_nsight_compute(self, program, tmp_path):
        nsys = program(DOES_NOTHING, f"{COMPUTE}/target-linux-x64/nsys")
        importer = program(DOES_NOTHING, f"{COMPUTE}/linux-desktop-glibc_2_11_3-x64/QdstrmImporter")
        assert find_tools([tmp_path / "nvidia"], path="") == NsysTools(nsys, importer)

    def test_what_cannot_be_executed_is_none(self, program, tmp_path):
        program(DOES_NOTHING, "nvidia/nsight-systems/2024.1.1/bin/nsys").chmod(0o644)
        assert find_tools([tmp_path / "nvidia"], path="").nsys is None
