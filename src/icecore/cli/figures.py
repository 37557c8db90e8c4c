"""`icecore figure`: the paper's figures from stored results."""

from pathlib import Path

import typer

from icecore.cli.output import JSON_OPTION, print_json
from icecore.cli.reproduce import DEFAULT_RESULTS, PRESET, RESULTS, ScaleName, warn
from icecore.errors import InputError

TITLES = {
    "fig7": "Figure 7: accuracy against width",
    "init": "Random bodies: the released initialization, and the gain of width 1024",
}


def figure_command(
    name: str = typer.Argument(..., metavar="NAME", help="fig7, or init."),
    out: list[Path] = typer.Option([], help="Where to, such as fig7.pdf or fig7.png; may be given again."),
    scale: ScaleName = typer.Option(ScaleName.paper, help="paper or laptop."),
    preset: str = PRESET,
    results: Path | None = RESULTS,
    json: bool = JSON_OPTION,
) -> None:
    """Draw a figure from stored results: medians as lines, all seeds between the ends of the bars.

    Trains nothing; icecore reproduce NAME --scale paper does. The ending of a file sets its format.
    """
    from icecore.reporting.figures import draw_widths, points_of
    from icecore.store import Records

    points = points_of(name, scale, preset, Records(results or DEFAULT_RESULTS[scale], warn))
    paths = out or [Path(f"{name}.png")]
    try:
        draw_widths(points, TITLES[name], paths)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot draw {', '.join(map(str, paths))}: {error}") from error
    seeds = sum(len(point.values) for point in points)
    if json:
        print_json({"files": [str(path) for path in paths], "points": [vars(point) for point in points]})
    else:
        print(f"{len(points)} points of {seeds} runs in {', '.join(map(str, paths))}")
