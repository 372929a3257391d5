"""Any Recording as Chrome trace events, which ui.perfetto.dev and chrome://tracing open.

    perfetto_json(recording)     one text, one event a line, ready to be written

Lanes are threads; what overlaps on one lane without nesting goes to a track of its own beside it, because viewers
drop or hide such slices. Arrows lead from a step's delta over a launch and its kernel to the token; counters are the
step's tokens, requests and KV tokens.
"""

from __future__ import annotations

from .export import perfetto_json

__all__ = ["perfetto_json"]
