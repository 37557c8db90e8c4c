"""Show a finished run: rows and notes, as the command line prints them and a notebook shows them."""

import html
from typing import TYPE_CHECKING, Any

from icecore.errors import printable

if TYPE_CHECKING:
    from icecore.training.config import RunConfig
    from icecore.training.run import TrainedRun

HEADINGS = {"loss_per_byte": "nats per byte"}


def trained_parts(config: "RunConfig") -> str:
    """Name what trains, phase by phase."""
    return ", then ".join(phase.trainable for phase in config.phases)


def title_of(config: "RunConfig") -> str:
    return f"{config.task.name}, {config.model.name} of width {config.model.width}, {trained_parts(config)} trained"


def seed_rows(run: "TrainedRun") -> list[tuple[str, ...]]:
    """Return headings, then a row per seed: its metrics and its test loss."""
    result = run.result
    shown = {*run.config.task.metrics(), "train_accuracy", "loss_per_byte"}
    names = [name for name in result if name in shown]
    headings = ("seed", *(HEADINGS.get(name, name.replace("_", " ")) for name in names), "test loss")
    rows = [
        (str(seed), *(f"{result[name][index]:.4f}" for name in names), f"{result['loss'][index]:.4f}")
        for index, seed in enumerate(result["seeds"])
    ]
    return [headings, *rows]


def baselines_in_words(result: dict[str, Any]) -> list[str]:
    """Return a line of baselines and, where a task is judged by its loss, a line of those of the loss."""
    lines = []
    for kind in ("baselines", "loss_baselines"):
        baselines = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in result.get(kind, {}).items())
        if baselines or kind == "baselines":
            lines.append(f"{kind.replace('_', ' ')}: {baselines or 'none'}")
    return lines


def counts_in_words(run: "TrainedRun") -> str:
    """Return the numbers of parameters, and the size of a sequence's state, which the last token reads."""
    result, before = run.result, run.config.task.max_length - 1
    state = run.config.model.state_size(before)
    after = "" if state is None else f"; state size {state:,} after {before:,} token{'s' * (before != 1)}"
    return f"{result['trained_parameters']:,} parameters trained, {result['frozen_parameters']:,} frozen{after}"


def in_html(run: "TrainedRun") -> str:
    """Return a table of seeds with its notes, for a notebook."""
    headings, *rows = seed_rows(run)
    lines = [row_in_html("th", headings), *(row_in_html("td", row) for row in rows)]
    notes = "".join(f"<p>{escaped(note)}</p>" for note in (*baselines_in_words(run.result), counts_in_words(run)))
    return f"<table><caption>{escaped(title_of(run.config))}</caption>{''.join(lines)}</table>{notes}"


def row_in_html(tag: str, row: tuple[str, ...]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escaped(cell)}</{tag}>' for cell in row)}</tr>"


def escaped(text: str) -> str:
    return html.escape(printable(text))
