"""The demo's figure: each task's accuracy beside its baseline."""

from collections.abc import Sequence
from pathlib import Path

from icecore.drawing import BLUE, GREEN, LIGHT_GREY, YELLOW, new_figure, write
from icecore.sweeps.demo import Row

SERIES = (
    ("baseline (no learning)", LIGHT_GREY, "_"),
    ("only the unembedding trained", YELLOW, "s"),
    ("random body, embeddings trained", BLUE, "o"),
    ("everything trained", GREEN, "^"),
)


def draw_demo(rows: Sequence[Row], path: Path) -> None:
    """Write the figure to `path`, in the format of its suffix."""
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    for (label, colour, marker), shift in zip(SERIES, (-0.24, -0.08, 0.08, 0.24), strict=True):
        places, heights = [], []
        for index, row in enumerate(rows):
            values = {
                "_": [row.baseline],
                "s": [row.unembed_only],
                "o": row.random,
                "^": row.normal,
            }[marker]
            for offset, value in enumerate(values):
                places.append(index + shift + 0.045 * (offset - (len(values) - 1) / 2))
                heights.append(100 * value)
        size = 13 if marker == "_" else 7
        axes.plot(places, heights, marker, color=colour, markersize=size, markeredgewidth=2, label=label, clip_on=False)
    axes.set_xticks(range(len(rows)), [row.task.replace("-", "\n") for row in rows])
    axes.set_ylabel("test accuracy, %")
    axes.set_ylim(0, 104)
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("A random transformer of width 128 with trained embeddings", loc="left", fontsize=11)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    write(figure, [path])
