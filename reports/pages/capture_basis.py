"""What a section of a capture's page rests on, and what it cannot say: the last lines of each section."""

from __future__ import annotations

from ...analysis.captures.figures import CaptureFigures
from ..document import Block, Words
from ..formatting import count, percent

CALLS = "device work with its call"
COPY_CALLS = "copies with their call"
STEPS = "device work in a step"
PHASES = "device work in a phase"
NOT_ALL = "kernels ran that are in no row of the capture"
KINDS = "copies between host and device with the host's kind of memory"


def basis(figures: CaptureFigures, *shares: str, unsaid: tuple[str, ...] = ()) -> tuple[Block, ...]:
    """The coverage behind a section's figures, then what of `unsaid` (words of questions) cannot be said, and why."""
    told = [covered(figures, share) for share in shares]
    lines: list[Block] = []
    if any(told):
        lines.append(Words(f"Rests on: {'; '.join(text for text in told if text)}."))
    for own in figures.cannot_say:
        if any(word in own.question for word in unsaid):
            lines.append(Words(f"Cannot say {own.question}, because {own.because}."))
    return tuple(lines)


def covered(figures: CaptureFigures, share: str) -> str:
    """ "device work with its call: 2092 of 4368 (47.9 %)"; empty where there is nothing of that kind."""
    for own in figures.coverage:
        if own.what == share and own.share is not None:
            return f"{own.what}: {count(own.covered)} of {count(own.of)} ({percent(own.share)})"
    return ""


def why_not(figures: CaptureFigures, question: str, otherwise: str) -> str:
    """Why a question whose words contain `question` has no answer."""
    return next((own.because for own in figures.cannot_say if question in own.question), otherwise)
