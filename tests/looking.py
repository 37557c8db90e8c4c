"""Helpers that read figures and printed tables."""

import re
from typing import Any

from matplotlib.figure import Figure


def drawn(monkeypatch, draw, *arguments: Any) -> Any:
    """The figure, which is not written."""
    kept: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: kept.append(figure))
    draw(*arguments)
    return kept[0]


def line_of(panel: Any, label: str) -> list[tuple[float, float]]:
    (line,) = [line for line in panel.lines if line.get_label() == label]
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def bars_of(panel: Any) -> dict[str, list[tuple[float, float]]]:
    """By label, the middle and the height of each bar."""
    return {
        bars.get_label(): [(round(bar.get_x() + bar.get_width() / 2, 6), bar.get_height()) for bar in bars]
        for bars in panel.containers
    }


def cells_of(out: str) -> list[list[str]]:
    """The rows of printed tables, their headings too."""
    return [[cell.strip() for cell in re.split("[│┃]", line)] for line in out.splitlines() if re.search("[│┃]", line)]
