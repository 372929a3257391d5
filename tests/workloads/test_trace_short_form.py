"""The form of Mooncake's traces that has no prefix hashes."""

from __future__ import annotations

import pytest
from stepscope.errors import UsageError
from stepscope.workloads.traces import read_trace


def test_a_mooncake_trace_may_come_without_hashes(tmp_path) -> None:
    # GIVEN rows of times in ms and lengths, the form that AIPerf takes
    path = tmp_path / "short.jsonl"
    path.write_text(
        '{"timestamp": 1000, "input_length": 512, "output_length": 128}\n'
        '{"timestamp": 0, "input_length": 6955, "output_length": 52}\n'
    )
    # WHEN it is read THEN it is a trace of its own kind, with no word on prefixes
    found = read_trace(path)
    assert (found.format, found.arrival_ns.tolist()) == ("mooncake_short", [0, 10**9])
    assert (found.prompt_len.tolist(), found.hash_ids) == ([6955, 512], ((), ()))
    # but numbered chats are Bailian's, in seconds: without their hashes the unit is not known
    path.write_text('{"chat_id": 1, "timestamp": 1.5, "input_length": 512, "output_length": 128}\n')
    with pytest.raises(UsageError, match="unknown columns"):
        read_trace(path)
