from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from stepscope.workloads.requests import Request
from stepscope.workloads.scheduler import Scheduler, SchedulerConfig
from stepscope.workloads.step import StepDelta, StepResult

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the checkout; what needs it is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("no ../shared beside the checkout")
    return SHARED


def token_at(req_id: str, position: int) -> int:
    """A synthetic model: the token after `position` tokens of a request."""
    return (sum(req_id.encode()) * 31 + position * 7) % 997


class Rig:
    """A scheduler, and a model of made-up tokens that answers exactly the covered requests."""

    def __init__(self, **limits: object) -> None:
        self.scheduler = Scheduler(SchedulerConfig(**limits))  # type: ignore[arg-type]
        self.history: dict[str, list[int]] = {}
        self.deltas: list[StepDelta] = []

    def add(self, *requests: Request) -> None:
        for request in requests:
            self.scheduler.add_request(request)
            self.history[request.req_id] = request.prompt_token_ids().tolist()

    def schedule(self) -> tuple[StepDelta, StepResult]:
        delta = self.scheduler.schedule()
        self.deltas.append(delta)
        cached = delta.cached
        computed = {new.req_id: new.num_computed_tokens for new in delta.new_requests}
        computed |= dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        ends = {name: computed[name] + delta.num_scheduled_tokens[name] for name in self.scheduler.covered(delta)}
        return delta, StepResult(delta.step, {name: (token_at(name, end),) for name, end in ends.items()})

    def deliver(self, result: StepResult) -> None:
        for name, tokens in self.scheduler.update(result).items():
            self.history[name].extend(tokens)

    def step(self) -> StepDelta:
        delta, result = self.schedule()
        self.deliver(result)
        return delta

    def steps(self, count: int) -> list[StepDelta]:
        return [self.step() for _ in range(count)]

    def drain(self, most: int = 100_000) -> list[StepDelta]:
        while self.scheduler.has_unfinished() or self.scheduler.has_pending_finished():
            assert len(self.deltas) < most
            self.step()
        return self.deltas


@pytest.fixture
def rig() -> Callable[..., Rig]:
    return Rig


@pytest.fixture
def ask() -> Callable[..., Request]:
    """A request by id and lengths, with 997 possible tokens."""

    def make(req_id: str, prompt_len: int, output_len: int, **more: object) -> Request:
        return Request(req_id, prompt_len, output_len, 997, **more)  # type: ignore[arg-type]

    return make


@pytest.fixture
def batch(ask: Callable[..., Request]) -> Callable[..., list[Request]]:
    """`count` requests of one shape."""

    def make(count: int, prompt_len: int, output_len: int, name: str = "r") -> list[Request]:
        return [ask(f"{name}{index}", prompt_len, output_len) for index in range(count)]

    return make


@pytest.fixture
def counts() -> Callable[[Iterable[StepDelta], str], list[int]]:
    """Scheduled tokens of one request in the steps that schedule it."""

    def of(deltas: Iterable[StepDelta], req_id: str) -> list[int]:
        return [delta.num_scheduled_tokens[req_id] for delta in deltas if req_id in delta.num_scheduled_tokens]

    return of
