"""What a killed run left behind: the segments that reached the disk."""

from __future__ import annotations

from pathlib import Path

from ...errors import UsageError
from ..probe.ledger import Row
from ..probe.segments import SegmentError, read_segments
from .meta import DROPPED, KILLED, Diagnostic, RecordingMeta
from .schema import OWN_SOURCE
from .storage import SEGMENT_FILE


def rescue_rows(
    folder: Path, meta: RecordingMeta, *, dropped_rows: int = 0
) -> tuple[dict[str, list[Row]], RecordingMeta]:
    """Rows by table and the meta with a note on what is missing. A torn tail is cut and counted, never guessed; so are
    steps at the end of a killed run that lack what they did.

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
    if content.closed:
        return content.rows, meta.with_diagnostics(*notes)
    cut = f"{content.torn_bytes} torn bytes cut"
    rows = content.rows
    if meta.source == OWN_SOURCE and meta.has_device and not meta.modelled:
        rows, number = _with_device_times(rows)
        cut += f", and {number} steps whose device times were not known yet" if number else ""
    return rows, meta.with_diagnostics(*notes).with_history(f"{KILLED}; {cut}")


def _with_device_times(rows: dict[str, list[Row]]) -> tuple[dict[str, list[Row]], int]:
    """Without the steps at the end whose copies and phases were not written, and the number of these steps.

    A GPU's clock is known seconds later, and rows wait for it; of such a step no copy would be read as 0 copies. What
    waits is written in the order of happening, phases last: the step of the last one is the first that may lack some.
    """
    last = max((row[0] for row in rows.get("phases", ()) if row[0] is not None), default=0)
    whole = [row for row in rows.get("steps", ()) if row[0] < last]
    return {**rows, "steps": whole}, len(rows.get("steps", ())) - len(whole)
