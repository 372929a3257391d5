"""The Triton kernels without a GPU: their test files once more, in Triton's interpreter.

The interpreter has to be chosen before Triton is imported, hence the process; one for all files, since its start costs
more than most of the tests.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")
FILES = (
    "attention/test_attention_triton.py", "models/test_layer_ops_triton.py", "test_table_kernels_triton.py",
    "test_draft_counts_triton.py", "test_handoff_triton.py", "test_slot_mapping_triton.py",
)  # fmt: skip


@pytest.mark.skipif(torch.cuda.is_available(), reason="the files run their kernels by themselves")
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="this is the interpreter's process")
def test_in_the_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    files = [str(Path(__file__).parent / name) for name in FILES]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout, "every kernel ran"
