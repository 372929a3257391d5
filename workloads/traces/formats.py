"""The trace formats that we read, and how a file is told to be one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .rows import Columns
from .timestamps import NS_PER_S


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """One format: its columns, its container, and the line that must stand beside numbers made from it."""

    name: str
    container: Literal["csv", "jsonl"]
    columns: Columns
    source: str
    arrivals: bool = True


FORMATS = {
    fmt.name: fmt
    for fmt in (
        TraceFormat(
            "azure",
            "csv",
            Columns(time="TIMESTAMP", prompt="ContextTokens", output="GeneratedTokens"),
            "Azure/AzurePublicDataset, CC-BY-4.0 (2023: Splitwise, ISCA'24; 2024: DynamoLLM, HPCA'25)",
        ),
        TraceFormat(
            "burstgpt",
            "csv",
            Columns(
                time="Timestamp",
                unit_ns=NS_PER_S,
                prompt="Request tokens",
                output="Response tokens",
                total="Total tokens",
            ),
            "HPMLL/BurstGPT, CC-BY-4.0 (KDD'25)",
        ),
        TraceFormat(
            "bailian",
            "jsonl",
            Columns(
                time="timestamp",
                unit_ns=NS_PER_S,
                prompt="input_length",
                output="output_length",
                hashes="hash_ids",
                hash_block=16,
            ),
            "alibaba-edu/qwen-bailian-usagetraces-anon, Apache-2.0 (ATC'25)",
        ),
        TraceFormat(
            "mooncake",
            "jsonl",
            Columns(
                time="timestamp",
                unit_ns=1_000_000,
                prompt="input_length",
                output="output_length",
                hashes="hash_ids",
                hash_block=512,
            ),
            "kvcache-ai/Mooncake, Apache-2.0 (FAST'25)",
        ),
        TraceFormat(
            "mooncake_short",
            "jsonl",
            Columns(time="timestamp", unit_ns=1_000_000, prompt="input_length", output="output_length"),
            "Mooncake's form without hashes, as AIPerf takes it (times in ms); licence of its own source",
        ),
        TraceFormat(
            "vidur",
            "csv",
            Columns(time="arrived_at", unit_ns=NS_PER_S, prompt="num_prefill_tokens", output="num_decode_tokens"),
            "replay csv as Vidur and LLMServingSim use it; licence of its own source",
        ),
        TraceFormat(
            "lengths",
            "csv",
            Columns(prompt="num_prefill_tokens", output="num_decode_tokens", total="num_total_tokens"),
            "length csv as Sarathi and Vidur use it; licence of its own source",
            arrivals=False,
        ),
    )
}
_BAILIAN_ONLY = "chat_id"


def detect(container: str, names: Iterable[str]) -> TraceFormat | None:
    """The format of a file with these column names (CSV header, keys of the first JSON line), or None.

    Mooncake and Bailian share their names but not their units; only Bailian numbers its chats. Without hashes, numbered
    chats are of neither: their unit is not known.
    """
    present = frozenset(names)
    for fmt in FORMATS.values():
        if fmt.container != container or not fmt.columns.required <= present:
            continue
        if (fmt.name == "bailian") != (_BAILIAN_ONLY in present) and fmt.name in ("bailian", "mooncake_short"):
            continue
        return fmt
    return None
