"""`icecore figure`: the paper's figures from stored results."""

from pathlib import Path

import typer

from icecore.cli.output import JSON_OPTION, print_json, say
from icecore.cli.sweeps import DEFAULT_RESULTS, PRESET, RESULTS, ScaleName, require_preset, require_results, warn

NAMES = "fig4, fig6, fig7, fig8, capacity, init, bodies, bodies-library, ladder"


def figure_command(
    name: str = typer.Argument(..., metavar="NAME", help=f"{NAMES}."),
    out: list[Path] = typer.Option(
        [], help="fig7.pdf, fig7.png, or a folder, which gets both. Repeatable. Default: NAME.png."
    ),
    scale: ScaleName = typer.Option(ScaleName.paper, help="paper or laptop."),
    preset: str = PRESET,
    results: Path | None = RESULTS,
    json: bool = JSON_OPTION,
) -> None:
    """Draw a figure of the paper from stored results.

    [bold]Examples[/bold]

    icecore figure fig7
    icecore figure fig7 --out fig7.pdf --out fig7.png
    icecore figure init --scale laptop --out figures

    Lines are medians, dashes are seeds. Nothing is trained; icecore reproduce NAME --scale paper trains (table3 for
    capacity). The file extension sets the format. fig8 shows all presets.
    """
    from icecore.errors import InputError
    from icecore.paper import FIGURES, evidence_of
    from icecore.paper.experiment import draw
    from icecore.paper.settings import remembered_settings
    from icecore.store.records import Records

    require_preset(preset)
    if name not in FIGURES:
        raise InputError(f"there is no figure {name}; there are {', '.join(FIGURES)}")
    experiment, figure = FIGURES[name]
    folder = results or DEFAULT_RESULTS[scale]
    require_results(folder, scale)
    paths = [path for each in out for path in files_at(each, name)] or [Path(f"{name}.png")]
    with remembered_settings():
        evidence = evidence_of(Records(folder, warn), scale, preset)
        points = draw(name, figure, experiment.name, evidence, paths)
    values = sum(len(point.values) for point in points)
    if json:
        print_json({"files": [str(path) for path in paths], "points": [vars(point) for point in points]})
    else:
        say(f"{len(points)} points, {values} values, in {', '.join(map(str, paths))}")


def files_at(path: Path, name: str) -> list[Path]:
    """Return a file as it is; for a folder, a PNG and a PDF in it."""
    is_file = bool(path.suffix) and not path.is_dir()
    return [path] if is_file else [path / f"{name}.png", path / f"{name}.pdf"]
