"""What a killed run left behind: the segments that reached the disk."""

from __future__ import annotations

from pathlib import Path

from ...errors import UsageError
from ..probe.ledger import Row
from ..probe.segments import SegmentError, read_segments
from .meta import DROPPED, KILLED, Diagnostic, RecordingMeta
from .storage import SEGMENT_FILE


def rescue_rows(
    folder: Path, meta: RecordingMeta, *, dropped_rows: int = 0
) -> tuple[dict[str, list[Row]], RecordingMeta]:
    """Rows by table and the meta with a note on what is missing. A torn tail is cut and counted, never guessed.

    `dropped_rows` is the writer's own count, which a full disk may have kept out of the file.
    """
    path = folder / SEGMENT_FILE
    try:
        content = read_segments(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); nothing of this run was saved") from error
    except SegmentError as error:
        raise UsageError(f"{path}: {error}; nothing of this run can be read") from error
    notes = []
    dropped = max(content.dropped_rows, dropped_rows)
    if dropped:
        notes.append(Diagnostic("steps", "complete", f"{dropped} {DROPPED}"))
    events = [] if content.closed else [f"{KILLED}; {content.torn_bytes} torn bytes cut"]
    return content.rows, meta.with_diagnostics(*notes).with_history(*events)
