"""Messages survive any cutting, and what is none of ours is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepscope.experiments.workers.frames import Decoder, GarbageError, encode


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), max_size=4), st.integers(1, 40))
def test_messages_come_whole_however_they_are_cut(messages: list[dict[str, object]], size: int) -> None:
    data = b"".join(encode(message) for message in messages)
    decoder, found = Decoder(), []
    for begin in range(0, len(data), size):
        found += decoder.feed(data[begin : begin + size])
    assert found == messages
    assert not decoder.pending


@given(st.binary(min_size=1, max_size=60), st.integers(0, 30))
def test_what_is_no_frame_is_noticed_or_waits_for_more(noise: bytes, at: int) -> None:
    frame = encode({"done": 3, "outcomes": []})
    data = frame[: min(at, len(frame))] + noise + frame
    decoder = Decoder()
    try:
        found = decoder.feed(data)
    except GarbageError:
        return
    assert all(message == {"done": 3, "outcomes": []} for message in found)


@pytest.mark.parametrize("data", [b"hello", b"SSW2", b"SSW1\xff\xff\xff\xff\0\0\0\0", encode({"a": 1})[:-1] + b"!"])
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(GarbageError):
        Decoder().feed(data)
