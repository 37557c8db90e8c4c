"""`icecore report`: one page of claims, runs and analyses."""

from pathlib import Path

import typer

from icecore.cli.options import OUTPUT_PANEL
from icecore.cli.output import JSON_OPTION, counted, print_json, say, say_wrapped
from icecore.cli.progress import stage_progress
from icecore.cli.run_folders import TRUST, require_elsewhere
from icecore.cli.sweeps import ScaleName, warn
from icecore.errors import require

MIB = 2**20


def command(
    sources: list[Path] = typer.Argument(
        None,
        metavar="RUN|RESULTS",
        help="Runs, folders of runs or of records, and JSON files of icecore analyze. Default: results/ and runs/.",
        show_default=False,
    ),
    out: Path = typer.Option(Path("report.html"), help="The file to write.", rich_help_panel=OUTPUT_PANEL),
    files: Path | None = typer.Option(
        None,
        metavar="DIR",
        help="Also write the paper's tables as CSV and Markdown, and its figures as SVG and PNG, into this folder.",
        rich_help_panel=OUTPUT_PANEL,
    ),
    title: str = typer.Option(
        "", help="Title of the page. Default: the folders of records or, without claims, the tasks."
    ),
    scale: ScaleName | None = typer.Option(
        None, help="Show claims at this scale: paper or laptop. Default: those that were run.", show_default=False
    ),
    inside: bool = typer.Option(
        True, help="Also measure what is inside each RUN that is named itself, with the untrained body as control."
    ),
    trust: bool = TRUST,
    json: bool = JSON_OPTION,
) -> None:
    """Write one HTML page of results, runs, curves and analyses.

    [bold]Examples[/bold]

    icecore report
    icecore report results --out paper.html --files figures
    icecore report runs/needle/0123456789ab --title Needle --out needle.html

    The page requests nothing from a network, so it can be sent as a file. Its plots show values under the pointer, hide
    lines and seeds, and save as SVG, PNG or CSV; a click on a cell shows its runs, with curves where their folders are
    named too. A folder of records gives the paper's claims as far as they were run, and your own settings as accuracy
    against width.
    """
    from icecore.page.document import page_html
    from icecore.page.files import plain_tables, write_files
    from icecore.page.report import Options, report_data
    from icecore.page.sources import sources_of
    from icecore.paper.settings import remembered_settings
    from icecore.process import configure_process
    from icecore.store import require_writable, write_whole

    found = sources_of(sources or [])
    require(out.suffix.lower() in (".html", ".htm"), f"--out must end in .html, got {out}")
    require_writable(out)
    for run in found.runs:
        require_elsewhere(run, out, files)
    if found.named_runs:
        configure_process()
    with stage_progress() as on_progress, remembered_settings():
        options = Options(title, scale, inside, trust)
        data = report_data(found, options, warn, on_progress)
        page = page_html(data, data["title"], plain_tables(data))
        with write_whole(out) as stream:
            stream.write(page)
        written = [] if files is None else write_files(found, data, files, warn, on_progress)
    show(data, out, len(page.encode()), [out, *written], json)


def show(data: dict, out: Path, size: int, files: list[Path], json: bool) -> None:
    """Print what the page contains."""
    claims = {part["scale"]: judged_in(part) for part in data["parts"]}
    runs = sum(len(setting["runs"]) for setting in data["settings"].values())
    if json:
        counts = {"settings": len(data["settings"]), "runs": runs, "analyses": len(data["inside"])}
        print_json({"files": [str(file) for file in files], "bytes": size, "claims": claims, **counts})
        return
    for scale, counts in claims.items():
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        say_wrapped(f"claims at {scale} scale: {words or 'none'}")
    analyses = (
        f", {counted(len(data['inside']), 'analysis')}".replace("analysiss", "analyses") if data["inside"] else ""
    )
    say_wrapped(
        f"{counted(len(data['settings']), 'setting')}, {counted(runs, 'run')}{analyses}; {size / MIB:.1f} MiB in {out}"
    )
    if len(files) > 1:
        say(f"{counted(len(files) - 1, 'file')} of tables and figures in {files[1].parent}")


def judged_in(part: dict) -> dict[str, int]:
    """Return the number of claims per verdict, with the first preset."""
    counts: dict[str, int] = {}
    for experiment in part["experiments"]:
        for verdict, count in experiment["presets"][part["presets"][0]]["counts"]["judged"].items():
            counts[verdict] = counts.get(verdict, 0) + count
    return counts
