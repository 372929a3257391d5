"""A list of capture sizes in the form that each engine takes. vLLM counts tokens, the other two count requests."""

from __future__ import annotations

import json
from collections.abc import Sequence


def engine_settings(sizes: Sequence[int], decode_tokens: int = 1) -> tuple[tuple[str, str], ...]:
    """(engine, what to paste) of ascending `sizes` in tokens; a decode has `decode_tokens` of them.

    (1, 2, 4) -> `--cuda-graph-bs 1 2 4`; with 2 tokens a decode -> `--cuda-graph-bs 1 2`, because 1 token is none.
    SGLang captures decodes only, and so does TensorRT-LLM, which pads nothing unless it is told to.
    """
    requests = sorted({size // decode_tokens for size in sizes if size >= decode_tokens})
    batches = ", ".join(map(str, requests))
    return (
        ("vLLM", f"--compilation-config '{json.dumps({'cudagraph_capture_sizes': list(sizes)})}'"),
        ("SGLang", f"--cuda-graph-bs {' '.join(map(str, requests))}"),
        ("TensorRT-LLM", f"cuda_graph_config: {{enable_padding: true, batch_sizes: [{batches}]}}"),
    )
