"""Adds what attention adds to graphs of each size to a calibration that was made before that was measured.

RAW and CALIBRATION are what `perf doctor --calibrate` wrote, which measures this with all the rest; both are written
anew, with `sized` as it is here and everything else as it was.

    python benchmarks/gpu/sized_attention.py benchmarks/results/h200/calibration_raw.json runner/data/h200.json
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import torch
from stepscope.experiments.calibrate.bench import GpuBench
from stepscope.experiments.calibrate.raw import read_raw
from stepscope.experiments.calibrate.run import json_text, make_subject, write_calibration
from stepscope.experiments.calibrate.sized import sized_samples
from stepscope.runner.models.config import NAMED


def main(raw_file: Path, calibration: Path) -> None:
    """Measure, and write both files."""
    raw = read_raw(raw_file)
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
        bench = GpuBench()
        subject = make_subject(bench.device, NAMED[raw.shape.name])
        sized = sized_samples(bench, subject.stack, subject.backend)
    raw = msgspec.structs.replace(raw, sized=sized)
    raw_file.write_text(json_text(raw))
    write_calibration(raw, calibration, raw_file)
    print(" ".join(f"{sample.size}:{sample.ns / 1e3:.1f}" for sample in sized), "us")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
