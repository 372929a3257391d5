"""Small multiples: where each panel of a chart lies, and its heading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_GAP_X = 0.07
_PANEL_PX = 250
_HEAD_PX = 34


@dataclass(frozen=True, slots=True)
class Panel:
    """Place of one panel. `x` and `y` are what a trace names its axes by ("x2", "y2"); the keys are the layout's."""

    x: str
    y: str
    xaxis: str
    yaxis: str
    x_domain: tuple[float, float]
    y_domain: tuple[float, float]

    def axes(self, x_title: str, y_title: str, **own: Any) -> dict[str, Any]:
        """The layout entries of this panel's two axes; `own` goes to both."""
        return {
            self.xaxis: {"domain": list(self.x_domain), "anchor": self.y, "title": {"text": x_title}, **own},
            self.yaxis: {"domain": list(self.y_domain), "anchor": self.x, "title": {"text": y_title}, **own},
        }

    def heading(self, text: str) -> dict[str, Any]:
        """An annotation over the panel's upper left corner."""
        return {
            "text": f"<b>{text}</b>", "xref": "paper", "yref": "paper", "x": self.x_domain[0], "y": self.y_domain[1],
            "xanchor": "left", "yanchor": "bottom", "yshift": 4, "showarrow": False, "font": {"size": 12},
        }

    def message(self, text: str) -> dict[str, Any]:
        """An annotation in the middle of a panel that has nothing to draw."""
        x, y = sum(self.x_domain) / 2, sum(self.y_domain) / 2
        return {
            "text": text, "xref": "paper", "yref": "paper", "x": x, "y": y, "showarrow": False,
            "font": {"size": 13, "color": "#5b6577"},
        }


def panels(number: int, columns: int) -> tuple[tuple[Panel, ...], int]:
    """Panels in reading order on a grid of `columns`, and the height in px of the whole chart."""
    columns = max(1, min(columns, number))
    rows = -(-number // columns)
    height_px = rows * (_PANEL_PX + _HEAD_PX) + 70
    gap_y = 84 / height_px if rows > 1 else 0.0
    wide = (1 - _GAP_X * (columns - 1)) / columns
    high = (1 - gap_y * (rows - 1)) / rows
    found = []
    for i in range(number):
        row, column = divmod(i, columns)
        tail = "" if i == 0 else str(i + 1)
        left, top = column * (wide + _GAP_X), 1 - row * (high + gap_y)
        found.append(Panel(
            f"x{tail}", f"y{tail}", f"xaxis{tail}", f"yaxis{tail}",
            (round(left, 4), round(min(1.0, left + wide), 4)), (round(max(0.0, top - high), 4), round(top, 4)),
        ))
    return tuple(found), height_px
