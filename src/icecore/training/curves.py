"""Plot loss and accuracy curves from a run's metrics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from icecore.drawing import BLUE, GREEN, finished, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_curves(metrics: Sequence[dict[str, Any]], seeds: Sequence[int], title: str) -> "Figure":
    """Plot training loss and test accuracy against the step, one thin line per seed."""
    figure = new_figure(7.2, 3.0)
    for panel, key, label, colour in zip(
        figure.subplots(1, 2), ("loss", "accuracy"), ("training loss", "test accuracy"), (BLUE, GREEN), strict=True
    ):
        rows = [row for row in metrics if row.get(key) is not None]
        for index in range(len(seeds)):
            values = [row[key][index] for row in rows]
            name = "one line per seed" if index == 0 and len(seeds) > 1 else "_"
            panel.plot([row["step"] for row in rows], values, color=colour, linewidth=1, alpha=0.7, label=name)
        panel.set_xlabel("step", fontsize=8)
        panel.set_ylabel(label, fontsize=8)
    figure.axes[1].set_ylim(0, 1.04)
    return finished(figure, title)
