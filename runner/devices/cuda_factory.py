"""Makes the `cuda` device with what is known of the machine's GPU."""

from __future__ import annotations

import torch

from ...errors import UsageError
from ...instrumentation.probe.ledger import Ledger
from .calibration import calibration_of
from .cuda import CudaDevice
from .cuda_rows import CopyCorrection


def check_cuda() -> None:
    """Raises UsageError where there is no GPU. Makes no context on it: one that is exclusive stays free for others."""
    if not torch.cuda.is_available():
        raise UsageError("device 'cuda' needs an NVIDIA GPU and a CUDA build of torch; use --device sim or cpu")


def make_cuda(ledger: Ledger, *, timing: bool = True) -> CudaDevice:
    """The current GPU. Copies are corrected by the bundled calibration of the same GPU, if there is one.

    Raises UsageError where there is no GPU.
    """
    check_cuda()
    known = calibration_of(torch.cuda.get_device_name())
    correction = CopyCorrection()
    if known is not None:
        correction = CopyCorrection(
            queued_bias_ns=known.event_bias_ns.queued,
            peak_bytes_per_s=known.peak_copy_bytes_per_s,
            launch_ns=known.host_cost_ns.launch,
            kernel_latency_ns=known.launch_latency_ns.kernel,
            graph_latency_ns=known.launch_latency_ns.graph,
        )
    return CudaDevice(ledger, correction, timing=timing)
