from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.workloads.traces import ReplayOptions, read_trace

S = 1_000_000_000

BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,0,417,Conversation log
100,GPT-4,1360,203,1563,Conversation log
,GPT-4,50,20,70,Conversation log
185,GPT-4,-3,20,17,Conversation log
200,GPT-4,64,16,99,Conversation log
"""


def write(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_bad_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    # GIVEN seven rows: unsorted, zero output, no timestamp, a negative length, a wrong total
    trace = read_trace(write(tmp_path, BURST))
    # THEN four are replayed in order of time, and nothing is silently put first
    assert (trace.arrival_ns / S).tolist() == [0, 40, 95, 195]
    assert trace.prompt_len.tolist() == [472, 1087, 1360, 64]
    assert trace.output_len.tolist() == [18, 230, 203, 16]
    assert trace.skipped == {"zero_output": 1, "missing_timestamp": 1, "invalid_tokens": 1}
    assert trace.warnings == ("rows kept although their total is not prompt + output: 1, the first in line 8",)
    assert (trace.format, trace.source) == ("burstgpt", "HPMLL/BurstGPT, CC-BY-4.0 (KDD'25)")


def test_the_case_file(shared: Path) -> None:
    trace = read_trace(shared / "cases" / "59" / "workload.csv")
    assert (trace.arrival_ns / S).tolist() == [0, 40, 95, 195]
    assert trace.skipped == {"zero_output": 1, "missing_timestamp": 1, "invalid_tokens": 1}


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    # GIVEN version 1.2 of the format, whose columns stand elsewhere
    text = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,7,2.5,ChatGPT,472,18,490,Conversation log\n"
    )
    trace = read_trace(write(tmp_path, text))
    assert (trace.prompt_len.tolist(), trace.output_len.tolist()) == ([472], [18])


def test_asking_for_more_rows_than_there_are_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"trace\.csv: 5 requests asked for, it has 4 usable ones; lower"):
        read_trace(write(tmp_path, BURST), limit=5)


def test_repeats_are_allowed_on_request_and_said(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, BURST), limit=10, options=ReplayOptions(repeat=True))
    # THEN each round starts one mean gap (65 s) after the end of the one before
    assert (trace.arrival_ns / S).tolist() == [0, 40, 95, 195, 260, 300, 355, 455, 520, 560]
    assert trace.prompt_len.tolist() == [472, 1087, 1360, 64] * 2 + [472, 1087]
    assert trace.warnings[-1] == "4 usable rows played 3 times to give 10 requests"


def test_repeat_says_nothing_where_it_was_not_needed(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, BURST), limit=4, options=ReplayOptions(repeat=True))
    assert len(trace.warnings) == 1


@pytest.mark.parametrize(
    ("seconds", "limit", "options", "words"),
    [
        (121 * 86_400, None, ReplayOptions(speed=0.001), "at speed 0.001 it lasts longer than 146 years"),
        (4_000_000_000, 6, ReplayOptions(repeat=True), "played 3 times it lasts longer than 146 years"),
        (4_000_000_000, None, ReplayOptions(repeat=True, speed=0.5), "at speed 0.5 it lasts"),
    ],
)
def test_arrivals_that_int64_does_not_hold_are_refused(
    tmp_path: Path, seconds: int, limit: int | None, options: ReplayOptions, words: str
) -> None:
    # GIVEN a trace of months or of a century WHEN it is stretched THEN no arrival wraps round to a negative time
    path = write(tmp_path, f"arrived_at,num_prefill_tokens,num_decode_tokens\n0,5,1\n{seconds},5,1\n")
    with pytest.raises(UsageError, match=words):
        read_trace(path, limit=limit, options=options)


@pytest.mark.parametrize(("speed", "last"), [(8.0, 24_375_000_000), (0.5, 390 * S), (3.0, 65 * S), (0.3, 650 * S)])
def test_speed_divides_the_offsets_exactly(tmp_path: Path, speed: float, last: int) -> None:
    trace = read_trace(write(tmp_path, BURST), options=ReplayOptions(speed=speed))
    assert trace.arrival_ns[-1] == last


def test_azure_keeps_100_ns_and_reads_mixed_forms(tmp_path: Path) -> None:
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.9799600,4808,10\n"
        "2023-11-16 18:17:04.0319601,3180,8\n"
        "2023-11-16 18:17:05+00:00,110,27\n"
        "2023-11-16 18:17:04.078149+00:00,7,3"
    )
    trace = read_trace(write(tmp_path, text))
    assert trace.arrival_ns.tolist() == [0, 52_000_100, 98_189_000, 1_020_040_000]
    assert trace.output_len.tolist() == [10, 8, 3, 27]


MOONCAKE = (
    '{"timestamp": 40, "input_length": 600, "output_length": 5, "hash_ids": [0, 7]}\n'
    '{"timestamp": 0, "input_length": 700, "output_length": 6, "hash_ids": [0, 9]}\n'
    '{"timestamp": 50, "input_length": 700, "output_length": 6, "hash_ids": [0]}\n'
    '{"timestamp": 60, "input_length": 1, "outp'
)


def test_mooncake_counts_milliseconds_and_blocks_of_512(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, MOONCAKE, "trace.jsonl"))
    assert trace.arrival_ns.tolist() == [0, 40_000_000]
    assert (trace.hash_block, trace.hash_ids) == (512, ((0, 9), (0, 7)))
    assert trace.skipped == {"hash_mismatch": 1, "malformed": 1}
    first, second = trace.requests(vocab_size=1000, seed=1)
    one, two = first.prompt_token_ids(), second.prompt_token_ids()
    assert (len(one), len(two)) == (700, 600)
    assert np.array_equal(one[:512], two[:512])
    assert not np.array_equal(one[512:600], two[512:])


def test_bailian_counts_seconds_and_blocks_of_16(tmp_path: Path) -> None:
    text = (
        '{"chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "input_length": 33, "output_length": 2,'
        ' "type": "text", "turn": 2, "hash_ids": [1, 2, 3]}\n'
        '{"chat_id": 160, "parent_chat_id": -1, "timestamp": 61.1145, "input_length": 16, "output_length": 2,'
        ' "type": "text", "turn": 1, "hash_ids": [1]}\n'
    )
    trace = read_trace(write(tmp_path, text, "trace.jsonl"))
    assert (trace.format, trace.hash_block) == ("bailian", 16)
    assert trace.arrival_ns.tolist() == [0, 500_000]


def test_vidur_and_length_csv(tmp_path: Path) -> None:
    vidur = read_trace(write(tmp_path, "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,48,10\n0.098189,11,27\n"))
    assert (vidur.format, vidur.arrival_ns.tolist()) == ("vidur", [0, 98_189_000])
    text = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n74,918,992,0.08\n290,905,1195,0.32\n"
    lengths = read_trace(write(tmp_path, text))
    assert (lengths.format, lengths.arrival_ns.tolist()) == ("lengths", [0, 0])
    assert lengths.warnings == ("lengths only, no arrivals: all requests arrive at once",)


def test_jitter_breaks_ticks_and_is_said(tmp_path: Path) -> None:
    # GIVEN a trace whose arrivals are quantised to 3 s
    rows = "".join(f"{3 * (index // 10)},{10 + index},1\n" for index in range(100))
    path = write(tmp_path, "arrived_at,num_prefill_tokens,num_decode_tokens\n" + rows)
    plain = read_trace(path)
    jittered = read_trace(path, options=ReplayOptions(jitter_ns=3 * S, seed=1))
    # THEN the bursts are gone, nobody moved by 3 s or more, and rows and times still belong together
    assert (np.diff(plain.arrival_ns) == 0).sum() == 90
    assert (np.diff(jittered.arrival_ns) > 0).all()
    assert sorted(jittered.prompt_len) == sorted(plain.prompt_len)
    shift = jittered.arrival_ns - plain.arrival_ns[jittered.prompt_len - 10]
    assert shift.max() - shift.min() < 3 * S
    assert jittered.arrival_ns[0] == 0
    assert "jittered" in jittered.warnings[-1]
    other = read_trace(path, options=ReplayOptions(jitter_ns=3 * S, seed=2))
    assert not np.array_equal(jittered.arrival_ns, other.arrival_ns)


def test_compressed_files_and_byte_order_marks(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("\ufeff" + BURST.replace("\n", "\r\n"))
    assert len(read_trace(tmp_path / "t.csv.gz")) == 4


@pytest.mark.parametrize(
    ("text", "asked", "words"),
    [
        ("", None, "no readable rows"),
        ("a,b\n1,2\n", None, "unknown columns a, b; known formats are azure, burstgpt.* name the columns arrived_at"),
        (BURST, "azure", "it lacks ContextTokens, GeneratedTokens, TIMESTAMP, so it is not of format 'azure'"),
        (BURST, "mooncake", "it lacks"),
        (BURST, "sharegpt", "format 'sharegpt' is unknown; known ones are"),
        ("Timestamp,Request tokens,Response tokens\n1,0,0\n", None, "nothing usable in it \\(1 zero_output\\)"),
    ],
)
def test_unusable_files_end_in_one_line(tmp_path: Path, text: str, asked: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=rf"trace\.csv: {words}"):
        read_trace(write(tmp_path, text), format=asked)


def test_a_missing_or_binary_file_ends_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.csv: No such file"):
        read_trace(tmp_path / "none.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00\x81" * 30)
    with pytest.raises(UsageError, match=r"b\.csv: no text file"):
        read_trace(tmp_path / "b.csv")
    (tmp_path / "torn.csv.gz").write_bytes(gzip.compress(BURST.encode())[:40])
    with pytest.raises(UsageError, match=r"torn\.csv\.gz: "):
        read_trace(tmp_path / "torn.csv.gz")


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.98,7,3\n"


@pytest.mark.parametrize(
    "text",
    [
        "\n \r\n" + AZURE.replace("\n", "\n\n"),  # blank lines before and between
        AZURE.replace("\n", "\r\n"),
        AZURE.replace("\n", "\r"),
        "\ufeff" + AZURE,
        AZURE.replace(",4808,10", ',"4808","10"'),
        AZURE.replace(",4808,10", ",4808.0,1e1"),
        AZURE.replace(",4808,10", ",4.808e3, 10 "),
        "GeneratedTokens,Note,TIMESTAMP,ContextTokens\n"
        '10,"a, ""b""\nc",2023-11-16 18:17:03.97996,4808\n3,,2023-11-16T19:17:04.98+01,7\n',
    ],
)
def test_one_trace_in_many_spellings(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    trace = read_trace(path)
    assert trace.arrival_ns.tolist() == [0, 1_000_040_000]
    assert (trace.prompt_len.tolist(), trace.output_len.tolist()) == ([4808, 7], [10, 3])
    assert trace.skipped == {}
    (tmp_path / "packed.csv").write_bytes(gzip.compress(text.encode()))  # told by its content, not its name
    assert np.array_equal(read_trace(tmp_path / "packed.csv").arrival_ns, trace.arrival_ns)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("TIMESTAMP,ContextTokens,GeneratedTokens", "invalid_tokens"),  # two files in one
        (" ,10,3", "missing_timestamp"),
        ("2023-11-16 25:00:00,10,3", "invalid_timestamp"),
        ("2023-11-16 18:60:00,10,3", "invalid_timestamp"),
        ("2023-11-16 18:00:00+99:99,10,3", "invalid_timestamp"),
        ("2023-11-16 18:17:05,nan,3", "invalid_tokens"),
        ("2023-11-16 18:17:05,inf,3", "invalid_tokens"),
        ("2023-11-16 18:17:05,4.5,3", "invalid_tokens"),
        ("2023-11-16 18:17:05,1_000,3", "invalid_tokens"),
        ("2023-11-16 18:17:05,1e99,3", "invalid_tokens"),
        ("2023-11-16 18:17:05,99999999999999999999,3", "invalid_tokens"),
        (f"2023-11-16 18:17:05,{'9' * 5000},3", "invalid_tokens"),
        ("2023-11-16 18:17:05,10", "malformed"),
        ("2023-11-16 18:17:05,10,3,4", "malformed"),
    ],
)
def test_one_bad_row_costs_one_row(tmp_path: Path, row: str, reason: str) -> None:
    trace = read_trace(write(tmp_path, AZURE + row + "\n"))
    assert (len(trace), trace.skipped) == (2, {reason: 1})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"timestamp": 1e300, "input_length": 1, "output_length": 1, "hash_ids": [1]}', "invalid_timestamp"),
        ('{"timestamp": 1e999999, "input_length": 1, "output_length": 1, "hash_ids": [1]}', "invalid_timestamp"),
        ('{"timestamp": -93e14, "input_length": 1, "output_length": 1, "hash_ids": [1]}', "invalid_timestamp"),
        ('{"timestamp": NaN, "input_length": 1, "output_length": 1, "hash_ids": [1]}', "invalid_timestamp"),
        ('{"timestamp": null, "input_length": 1, "output_length": 1, "hash_ids": [1]}', "missing_timestamp"),
        ('{"timestamp": 1, "input_length": true, "output_length": 1, "hash_ids": [1]}', "invalid_tokens"),
        ('{"timestamp": 1, "output_length": 1, "hash_ids": [1]}', "invalid_tokens"),
        ('{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["1"]}', "hash_mismatch"),
        ('{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1.5]}', "hash_mismatch"),
        ('{"timestamp": 1, "input_length": 1, "output_length": 1}', "hash_mismatch"),
        ('{"timestamp": ' + "9" * 5000 + "}", "malformed"),
        ("[" * 100_000, "malformed"),
        ("null", "malformed"),
        ('{"timestamp": 1, "inp', "malformed"),
    ],
)
def test_a_bad_line_of_json_may_stand_anywhere(tmp_path: Path, line: str, reason: str) -> None:
    # GIVEN a bad line at the head and at the end of a good trace, whose ids are huge, negative or written as floats
    good = (
        '{"timestamp": -7, "input_length": 513.0, "output_length": 5, "hash_ids": [18446744073709551617, -3]}\n'
        '\n{"timestamp": -17, "input_length": 512, "output_length": 6, "hash_ids": [5.0]}\n'
    )
    trace = read_trace(write(tmp_path, f"{line}\n{good}{line}\n", "t.jsonl"))
    # THEN only the bad lines are left out
    assert trace.skipped == {reason: 2}
    assert trace.arrival_ns.tolist() == [0, 10_000_000]
    assert trace.hash_ids == ((5,), (18446744073709551617, -3))
    assert [len(request.prompt_token_ids()) for request in trace.requests(vocab_size=50)] == [512, 513]


def test_a_first_row_without_its_chat_id_does_not_turn_seconds_into_milliseconds(tmp_path: Path) -> None:
    text = (
        '{"timestamp": 1, "input_length": 16, "output_length": 2, "hash_ids": [1]}\n'
        '{"chat_id": 160, "timestamp": 2.5, "input_length": 16, "output_length": 2, "hash_ids": [1]}\n'
    )
    trace = read_trace(write(tmp_path, text, "t.jsonl"))
    assert (trace.format, trace.arrival_ns.tolist()) == ("bailian", [0, 1_500_000_000])


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="column ContextTokens stands twice in its header"):
        read_trace(write(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens,ContextTokens\n5,1,2,3\n"))


def test_files_damaged_in_the_middle_end_in_one_line(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(BURST.encode() * 2000))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "bad.csv.gz").write_bytes(packed)
    (tmp_path / "quote.csv").write_text(BURST + '"' + "x" * 200_000)
    (tmp_path / "plain.csv.gz").write_text(BURST)
    for name in ("bad.csv.gz", "quote.csv"):
        with pytest.raises(UsageError, match=rf"trace .*{name}: "):
            read_trace(tmp_path / name)
    assert len(read_trace(tmp_path / "plain.csv.gz")) == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [({"speed": 0.0}, "speed is 0"), ({"speed": float("nan")}, "speed is nan"), ({"jitter_ns": -1}, "jitter_ns is -1")],
)
def test_unfit_options_are_refused(options: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ReplayOptions(**options)


@pytest.mark.parametrize(
    ("name", "rows", "skipped", "span_ns", "mean_prompt", "mean_output"),
    [
        ("azure2023_code.csv", 8819, 0, 3_435_948_056_000, 2047.8, 27.9),
        ("azure2023_conv.csv", 19366, 0, 3_501_721_937_000, 1154.7, 211.1),
        ("azure2024_code_head_tail.csv", 10, 0, 604_799_919_571_000, 2401.6, 18.0),
        ("azure2024_conv_head_tail.csv", 10, 0, 604_799_994_297_000, 1276.7, 85.6),
        ("burstgpt_1_head.csv", 38, 4, 4569 * S, 754.8, 354.4),
        ("llmservingsim_sharegpt_llama31_300.csv", 300, 0, 29_136_836_000, 857.5, 652.5),
        ("mooncake_synthetic_trace.jsonl", 3993, 0, 1_022_025_000_000, 15325.5, 149.1),
        ("qwen_bailian_head.jsonl", 1, 0, 0, 502.0, 1494.0),
    ],
)
def test_the_public_traces(shared: Path, name, rows, skipped, span_ns, mean_prompt, mean_output) -> None:
    trace = read_trace(shared / "traces" / name)
    assert (len(trace), sum(trace.skipped.values()), trace.arrival_ns[-1]) == (rows, skipped, span_ns)
    assert trace.prompt_len.mean() == pytest.approx(mean_prompt, abs=0.05)
    assert trace.output_len.mean() == pytest.approx(mean_output, abs=0.06)
