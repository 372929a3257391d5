"""A trace repeats only when a spec asks for it, and then says so."""

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.resolve import resolve, workload_of

ROWS = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,8,2\n0.5,9,3\n"


def spec(file, **trace):
    return resolve({"workload": {"trace": {"file": str(file), "limit": 5, **trace}}, "device": "cpu"})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text(ROWS)
    return path


def test_more_requests_than_rows_are_refused_with_the_mend(file) -> None:
    with pytest.raises(UsageError, match="repeat: true"):
        spec(file)


def test_a_spec_may_ask_for_repeats(file) -> None:
    workload = workload_of(spec(file, repeat=True))
    assert [request.prompt_len for request in workload.requests] == [8, 9, 8, 9, 8]
    assert any("played 3 times" in note for note in workload.notes), "and the recording says that it was done"
