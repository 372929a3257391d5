"""What the reference knows of a request: plain lists and sums, nothing that is kept up to date by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.workloads.acceptance import SyntheticAcceptance, num_right
from stepscope.workloads.step import SamplingParams

VOCAB = 512


@dataclass
class Flight:
    """One step in flight that samples for a request: `drafts` verified, `got` tokens that it will show."""

    step: int
    drafts: int
    got: int

    @property
    def rejected(self) -> int:
        return self.drafts + 1 - self.got


@dataclass
class Live:
    """A request that was announced and not finished. `text` is what the model says behind the prompt.

    outputs   tokens that have come back;  flights  steps that will bring more
    computed  what the scheduler counts, with all drafts in flight accepted
    blocks    manager blocks, one list a group, None while it waits for blocks
    """

    req_id: str
    prompt: list[int]
    text: list[int]
    limit: int
    outputs: int = 0
    flights: list[Flight] = field(default_factory=list)
    computed: int = 0
    blocks: list[list[int]] | None = None
    sampled_step: int = -9
    sampling: SamplingParams = field(default_factory=SamplingParams)
    announced: bool = False

    @property
    def known(self) -> int:
        """Tokens that the host has."""
        return len(self.prompt) + self.outputs

    @property
    def counted(self) -> int:
        """Tokens that the scheduler counts on: known ones and places in flight."""
        return self.known + sum(1 + flight.drafts for flight in self.flights)

    @property
    def rejected(self) -> int:
        """Drafts in flight that the scheduler takes for accepted."""
        return sum(flight.rejected for flight in self.flights)

    @property
    def all_tokens(self) -> list[int]:
        return self.prompt + self.text

    @property
    def ended(self) -> bool:
        """The host knows that it has enough, or will when what flies is back."""
        drafts = sum(flight.drafts for flight in self.flights)
        return self.counted - drafts >= len(self.prompt) + self.limit

    def tokens_behind(self, count: int) -> list[int]:
        """What follows on its first `count` tokens."""
        return self.all_tokens[count:]


@dataclass(frozen=True)
class Turn:
    """What one step does for one request.

    start     where the device computes;  counted  what the delta says;  believed  where the worker's host thinks
    ids       the tokens that are fed;  shows  those that become visible, () inside the input
    """

    req_id: str
    start: int
    counted: int
    believed: int
    ids: list[int]
    shows: tuple[int, ...]
    prompt: int
    blocks: list[list[int]]

    @property
    def count(self) -> int:
        return len(self.ids)


def spoilt_drafts(live: Live, count: int, most: int, acceptance: SyntheticAcceptance) -> list[int]:
    """`count` of the `most` drafts that the synthetic rate gives behind the request's true tokens."""
    outputs = live.counted - live.rejected - len(live.prompt)
    right = num_right(acceptance, (live.req_id, outputs), 0, most)
    behind = live.text[outputs : outputs + most]
    behind += [0] * (most - len(behind))
    return [token if place < right else (token + 1) % VOCAB for place, token in enumerate(behind)][:count]


def accepted(drafts: list[int], behind: list[int]) -> int:
    """The longest prefix of the drafts that the text goes on with."""
    number = 0
    while number < len(drafts) and drafts[number] == behind[number]:
        number += 1
    return number
