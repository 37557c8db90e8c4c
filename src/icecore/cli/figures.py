"""`icecore figure`: the paper's figures from stored results."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from icecore.cli.output import JSON_OPTION, print_json
from icecore.cli.sweeps import DEFAULT_RESULTS, PRESET, RESULTS, ScaleName, require_preset, warn
from icecore.errors import InputError

if TYPE_CHECKING:
    from icecore.store import Records

TITLES = {
    "fig4": "Figure 4: loss of language models against width",
    "fig6": "Figure 6: circuit imitation, Random and Normal students",
    "fig7": "Figure 7: accuracy against width",
    "fig8": "Figure 8: accuracy during memorization",
    "capacity": "Memorized bits a parameter",
    "init": "Random bodies: the released initialization, and the gain of width 1024",
}


def figure_command(
    name: str = typer.Argument(..., metavar="NAME", help=f"{', '.join(TITLES)}."),
    out: list[Path] = typer.Option(
        [], help="Where to: fig7.pdf, fig7.png, or a folder, which gets both. May be given again."
    ),
    scale: ScaleName = typer.Option(ScaleName.paper, help="paper or laptop."),
    preset: str = PRESET,
    results: Path | None = RESULTS,
    json: bool = JSON_OPTION,
) -> None:
    """Draw a figure from stored results: medians as lines, all seeds between the ends of the bars.

    Trains nothing; icecore reproduce NAME --scale paper does (table3 for capacity). The ending of a file sets its
    format. fig8 shows both presets.
    """
    from icecore.store import Records

    require_preset(preset)
    paths = [path for each in out for path in files_at(each, name)] or [Path(f"{name}.png")]
    points = draw(name, scale, preset, Records(results or DEFAULT_RESULTS[scale], warn), paths)
    seeds = sum(len(point.values) for point in points)
    if json:
        print_json({"files": [str(path) for path in paths], "points": [vars(point) for point in points]})
    else:
        print(f"{len(points)} points of {seeds} runs in {', '.join(map(str, paths))}")


def files_at(path: Path, name: str) -> list[Path]:
    """A file stays what it is; a folder gets the figure to look at and the one to print."""
    is_file = bool(path.suffix) and not path.is_dir()
    return [path] if is_file else [path / f"{name}.png", path / f"{name}.pdf"]


def draw(name: str, scale: str, preset: str, records: "Records", paths: list[Path]) -> list[Any]:
    """Draw it; its points, curves or bars, each with `values`, one a run."""
    from icecore.reporting import figures, other_figures

    if name not in TITLES:
        raise InputError(f"there is no figure {name} yet; there are {', '.join(TITLES)}")
    if name in figures.WIDTH_FIGURES:
        points, draw_points = figures.points_of(name, scale, preset, records), figures.draw_widths
    else:
        points_of, draw_points = other_figures.FIGURES[name]
        points = points_of(scale, preset, records)
        other_figures.require_points(name, points, scale, records)
    try:
        draw_points(points, TITLES[name], paths)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot draw {', '.join(map(str, paths))}: {error}") from error
    return points
