"""`icecore claims` and `icecore results merge`: the paper's numbers beside ours, from stored results."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from icecore.cli.options import OUTPUT_PANEL
from icecore.cli.output import CSV, JSON_OPTION, MARKDOWN, Format, format_of, print_json, print_table, say
from icecore.cli.sweeps import (
    DEFAULT_RESULTS,
    GRID,
    NAMES,
    RESULTS,
    ScaleName,
    experiment_names,
    require_preset,
    require_results,
    warn,
)
from icecore.cli.terminal_table import terminal_width, wrapped
from icecore.errors import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from icecore.reporting.claim import Claim
    from icecore.reporting.table import Table
    from icecore.store import Record


def claims_command(
    names: list[str] = NAMES,
    scale: ScaleName = typer.Option(ScaleName.paper, help="paper or laptop."),
    preset: str | None = typer.Option(
        None, help="released (default), unfiltered, reconstructed or paper. --summary without it shows the first three."
    ),
    results: Path | None = RESULTS,
    json: bool = JSON_OPTION,
    markdown: bool = MARKDOWN,
    csv: bool = CSV,
    grid: bool = GRID,
    summary: bool = typer.Option(
        False,
        "--summary",
        help="One row per table or figure: how many claims hold, by preset.",
        rich_help_panel=OUTPUT_PANEL,
    ),
    by_preset: bool = typer.Option(
        False,
        "--by-preset",
        help="Like --grid, with a row for every preset that was run and has other settings.",
        rich_help_panel=OUTPUT_PANEL,
    ),
    predictions: bool = typer.Option(
        False,
        "--predictions",
        help="What was predicted of the preset reconstructed before its runs, beside their outcome.",
        rich_help_panel=OUTPUT_PANEL,
    ),
) -> None:
    """Show the paper's numbers beside ours, with verdicts.

    [bold]Examples[/bold]

    icecore claims --summary
    icecore claims table1 --grid
    icecore claims --predictions
    icecore claims table1 table2 --csv > claims.csv

    Nothing is trained; icecore reproduce trains missing runs. Without a NAME, all tables and figures are shown.
    """
    if preset is not None:
        require_preset(preset)
    require(
        summary + grid + by_preset + predictions <= 1,
        "--summary, --grid, --by-preset and --predictions are four tables: choose one of them",
    )
    is_fixed = scale is ScaleName.paper and preset is None and not names
    require(not predictions or is_fixed, "--predictions shows one table: drop NAME, --scale and --preset")
    require(not by_preset or preset is None, "--by-preset shows every preset: drop --preset")
    if by_preset and (names or ["all"]) == ["all"]:
        names = ["table1", "table2", "table9", "fig7"]
    from icecore.paper.settings import remembered_settings

    wanted = experiment_names(names or ["all"])
    folder = results or DEFAULT_RESULTS[scale]
    require_results(folder, scale)
    chosen = format_of(markdown, csv)
    with remembered_settings():
        if predictions:
            show_predictions(folder, json, chosen)
        elif summary:
            show_summary(wanted, scale, preset, folder, json, chosen)
        elif by_preset:
            show_presets(wanted, scale, folder, json, chosen)
        else:
            show_claims(wanted, scale, preset or "released", folder, json, chosen, grid)


def merge_command(
    sources: list[Path] = typer.Argument(..., help="Folders with records of other machines."),
    results: Path = typer.Option(Path("results"), help="Folder of our records."),
    json: bool = JSON_OPTION,
) -> None:
    """Merge records and tried rates of other machines; skip duplicates, abort on conflict.

    [bold]Examples[/bold]

    icecore results merge ../other-machine/results
    icecore results merge gpu1/results gpu2/results --results results
    """
    from icecore.store import INSIDE, TRACKS, Records
    from icecore.store.rates import add_rates, chosen_rates, read_rates, require_agreement

    theirs = [Records(source, warn) for source in sources]
    for each in theirs:
        require(each.path.exists(), f"there are no records in {each.path.parent}: {each.path} is missing")
    ours = Records(results, warn)
    # Records of runs come last: what is measured beside a run is there once the run is.
    found = {
        mine: [record for each in theirs for record in each.beside(mine.path.name).read()]
        for mine in (ours.beside(INSIDE), ours.beside(TRACKS), ours)
    }
    require_own_ids([record for records in found.values() for record in records])
    require_sound([record for records in found.values() for record in records])
    rates = [rate for each in theirs for rate in read_rates(each.path.parent, warn)]
    require_agreement(results, rates)
    for mine, records in found.items():
        mine.require_agreement(records)
    chosen = chosen_rates(results)
    added = [mine.append(records) for mine, records in found.items()][-1]
    tried = add_rates(results, rates)  # cells that choose their rate count at the one that was chosen
    now = chosen_rates(results)
    changed = sum(now[of] != rate for of, rate in chosen.items())
    if changed:
        warn(f"{changed} cells now have another rate; icecore reproduce trains them at it")
    if json:
        print_json({"added": added, "records": len(ours.by_run()), "rates": tried})
    else:
        also = f" and {tried} tried rates" if tried else ""
        say(f"{added} records{also} added, {len(ours.by_run())} in {ours.path}")


def require_own_ids(records: "Sequence[Record]") -> None:
    """Raise unless each record's id is that of its config; a record without a config cannot be checked."""
    from icecore.training.identity import name_of

    unchecked = [record for record in records if record.get("config") is None]
    for record in records:
        try:
            own = record["run"] if record.get("config") is None else name_of(record["config"])
        except (TypeError, ValueError, AttributeError, RecursionError):
            own = "none: it is not the config of a run"
        require(
            record["run"] == own,
            f"run {record['run']} is not the run of its config, whose id is {own}; nothing was added",
        )
    if unchecked:
        warn(f"the ids of {len(unchecked):,} records without a config cannot be checked; reports leave them out")


def require_sound(records: "Sequence[Record]") -> None:
    """Raise for a damaged value: reports would skip the record, and the correct one could not be added."""
    from icecore.store.record_schema import problem_of_record

    for record in records:
        problem = problem_of_record(record)
        require(problem is None, f"the record of run {record['run']} is damaged: {problem}; nothing was added")


def show_claims(
    names: list[str], scale: ScaleName, preset: str, results: Path, json: bool, format: Format, grid: bool
) -> None:
    from icecore.paper import EXPERIMENTS, evidence_of
    from icecore.paper.claim_table import notes_on_pooling
    from icecore.paper.evidence import spent
    from icecore.paper.grid import grid_of
    from icecore.store.records import Records

    evidence = evidence_of(Records(results, warn), scale, preset)
    claims = [claim for name in names for claim in EXPERIMENTS[name].claims_of(evidence)]
    tables = {
        name: make(EXPERIMENTS[name], evidence) for name in names if (make := EXPERIMENTS[name].tables) is not None
    }
    if json:
        shown = {name: [{"title": each.title, "rows": each.records()} for each in own] for name, own in tables.items()}
        print_json({"claims": [as_json(claim) for claim in claims], **({"tables": shown} if shown else {})})
        return
    title = f"({scale} scale, preset {preset})"
    if grid:
        for name in names:
            own = [claim for claim in claims if claim.name == name]
            print_table(grid_of(own, f"{name} {title}: our median (the paper's)"), format)
        return
    print_claims(claims, tables if format is not Format.csv else {}, title, format)
    if format is Format.csv:
        return
    for note in notes_on_pooling(names, evidence):
        say(wrapped(note, terminal_width(), hanging="    "))
    for each in spent(run for name in names for run in EXPERIMENTS[name].runs_of(evidence)):
        minutes = f"{each.seconds / 60:,.1f} minutes of {each.device}, concurrent runs counted separately"
        say(wrapped(f"{each.runs} runs, {minutes}", terminal_width()))


def print_claims(claims: "Sequence[Claim]", tables: "dict[str, list[Table]]", scale: str, format: Format) -> None:
    """Print a table of claims per experiment or, in another format, one of all; then the experiments' own tables."""
    from icecore.paper.claim_table import claim_table, claim_table_of

    title = f"In % unless a cell says otherwise; ours: median {scale}"
    listed = [claim for claim in claims if claim.name not in tables]
    if listed and format is Format.terminal:
        say(title)
        for name in dict.fromkeys(claim.name for claim in listed):
            print()
            print_table(claim_table_of(name, [claim for claim in listed if claim.name == name]))
        print()
    elif listed:
        print_table(claim_table(listed, title), format)
    for table in (table for own in tables.values() for table in own):
        if format is Format.markdown:
            print(f"**{table.title}**\n")
        print_table(table, format)
        print()


def show_presets(names: list[str], scale: ScaleName, results: Path, json: bool, format: Format) -> None:
    from icecore.paper.grid import preset_grid_of
    from icecore.store.records import Records

    title = f"({scale} scale): our median (the paper's)"
    tables = {name: preset_grid_of(name, scale, Records(results, warn), f"{name} {title}") for name in names}
    if json:
        print_json({name: {"headings": table.headings, "rows": table.rows} for name, table in tables.items()})
        return
    for table in tables.values():
        print_table(table, format)


def show_predictions(results: Path, json: bool, format: Format) -> None:
    from icecore.paper.outcomes import outcomes
    from icecore.store.records import Records

    table = outcomes(Records(results, warn), "Predictions of the preset reconstructed: within the tolerance or outside")
    if json:
        print_json({"predictions": table.records()})
    else:
        print_table(table, format)


def show_summary(
    names: list[str], scale: ScaleName, preset: str | None, results: Path, json: bool, format: Format
) -> None:
    from icecore.paper.summary import LEGEND, side_by_side, summary_of, verdicts_by_preset
    from icecore.store.records import Records

    records = Records(results, warn)
    if preset is None and json:
        print_json({"verdicts": LEGEND.split(", "), "summary": verdicts_by_preset(names, scale, records)})
    elif preset is None:
        print_table(side_by_side(names, scale, records, f"Claims by preset ({scale} scale): {LEGEND}"), format)
    else:
        table = summary_of(names, scale, preset, records, f"Numbers of the paper ({scale} scale, preset {preset})")
        if json:
            print_json({"summary": table.records()})
        else:
            print_table(table, format)


def as_json(claim: "Claim") -> dict[str, Any]:
    return {**dataclasses.asdict(claim), "n": claim.n, "spread": claim.spread, "weak": claim.is_weak}
