"""What importing costs: torch and pandas only where they are used."""

import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "pandas", "pyarrow")


def loaded_after(statement):
    code = f"import sys; {statement}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    "statement",
    [
        "import stepscope",
        "import stepscope.instrumentation.probe, stepscope.instrumentation.probe.segments",
        "from stepscope.instrumentation.recording import RecordingMeta, schema",
        "import stepscope.instrumentation.telemetry, stepscope.instrumentation.environment; "
        "stepscope.instrumentation.environment.fingerprint()",
        "import stepscope.instrumentation.capture_sizes",
    ],
)
def test_light_imports(statement):
    assert loaded_after(statement) == []


def test_a_recording_needs_no_torch():
    assert loaded_after("from stepscope.instrumentation.recording import Recording, RecordingWriter") == [
        "pandas", "pyarrow",
    ]
