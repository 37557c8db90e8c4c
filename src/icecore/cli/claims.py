"""`icecore claims` and `icecore results merge`: the paper's numbers beside ours, from stored results."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from icecore.cli.output import JSON_OPTION, print_json, print_table
from icecore.cli.sweeps import (
    DEFAULT_RESULTS,
    GRID,
    MARKDOWN,
    NAMES,
    PRESET,
    RESULTS,
    ScaleName,
    entry_names,
    require_preset,
    warn,
)
from icecore.errors import require

if TYPE_CHECKING:
    from icecore.reporting.claims import Claim


def claims_command(
    names: list[str] = NAMES,
    scale: ScaleName = typer.Option(ScaleName.paper, help="paper or laptop."),
    preset: str = PRESET,
    results: Path | None = RESULTS,
    json: bool = JSON_OPTION,
    markdown: bool = MARKDOWN,
    grid: bool = GRID,
    summary: bool = typer.Option(False, "--summary", help="A row for each table or figure: how many numbers agree."),
    by_preset: bool = typer.Option(
        False, "--by-preset", help="As --grid, with a row for every preset that was run, where its settings differ."
    ),
) -> None:
    """The paper's numbers beside ours, from stored results; trains nothing."""
    require_preset(preset)
    require(summary + grid + by_preset <= 1, "--summary, --grid and --by-preset are three tables: choose one of them")
    require(not by_preset or preset == "released", "--by-preset shows every preset: drop --preset")
    require(results is None or results.is_dir(), f"there is no folder {results}; --results names one with records")
    if by_preset and (names or ["all"]) == ["all"]:
        names = ["table1", "table2", "table9", "fig7"]
    wanted = entry_names(names or ["all"])
    folder = results or DEFAULT_RESULTS[scale]
    if summary:
        show_summary(wanted, scale, preset, folder, json, markdown)
    elif by_preset:
        show_presets(wanted, scale, folder, json, markdown)
    else:
        show_claims(wanted, scale, preset, folder, json, markdown, grid)


def merge_command(
    sources: list[Path] = typer.Argument(..., help="Folders with records, such as those of other machines."),
    results: Path = typer.Option(Path("results"), help="Folder of our records."),
    json: bool = JSON_OPTION,
) -> None:
    """Add other machines' records to ours, but those that are there; if one disagrees, none is added."""
    from icecore.store import Records
    from icecore.sweeps.variance import INSIDE

    theirs = [Records(source, warn) for source in sources]
    for each in theirs:
        require(each.path.exists(), f"there are no records in {each.path.parent}: {each.path} is missing")
    ours, inside = Records(results, warn), Records(results, warn, INSIDE)
    runs = [record for each in theirs for record in each.read()]
    looks_inside = [record for source in sources for record in Records(source, warn, INSIDE).read()]
    ours.require_agreement(runs)
    inside.require_agreement(looks_inside)
    added = ours.append(runs)
    inside.append(looks_inside)
    if json:
        print_json({"added": added, "records": len(ours.by_run())})
    else:
        print(f"{added} records added, {len(ours.by_run())} in {ours.path}")


def show_claims(
    names: list[str], scale: ScaleName, preset: str, results: Path, json: bool, markdown: bool, grid: bool
) -> None:
    from icecore.reporting.claims import claims_of, spent_on
    from icecore.reporting.grids import grid_of
    from icecore.reporting.paper_numbers import SHARES
    from icecore.reporting.share_claims import choices_of
    from icecore.store import Records

    claims = claims_of(names, scale, preset, Records(results, warn))
    if json:
        print_json({"claims": [as_json(claim) for claim in claims]})
        return
    title = f"({scale} scale, preset {preset})"
    if grid:
        for name in names:
            headings, rows = grid_of([claim for claim in claims if claim.name == name])
            show_rows(f"{name} {title}: our median (the paper's)", headings, rows, headings[:1], markdown)
        return
    headings = ("name", "cell", "paper", "ours", "n", "spread", "floor", "tolerance", "verdict")
    rows = [row_of(claim) for claim in claims]
    if any(claim.remarks for claim in claims):
        headings, rows = (*headings, "note"), [(*row, claim.remarks) for row, claim in zip(rows, claims, strict=True)]
    title = f"Test accuracy, or share of variance, in %, or what the cell says {title}: the paper's number, our median"
    show_rows(title, headings, rows, ("name", "cell", "verdict", "note"), markdown)
    choices = choices_of([name for name in names if name in SHARES], scale, preset, Records(results, warn))
    if choices and scale is ScaleName.paper:
        print("Which activations are pooled: the paper does not say. Mean difference from its shares of variance:")
        for choice in choices:
            print(
                f"  positions {choice.positions}, last layer {choice.last_layer} the final norm: "
                f"{choice.difference:.1f} points, {choice.within} of {choice.numbers} numbers within the tolerance"
            )
    for spent in spent_on(names, scale, preset, Records(results, warn)):
        print(f"{spent.runs} runs, {spent.seconds / 60:,.1f} minutes of {spent.device}, runs side by side counted each")


def show_presets(names: list[str], scale: ScaleName, results: Path, json: bool, markdown: bool) -> None:
    from icecore.reporting.grids import preset_grid_of
    from icecore.store import Records

    grids = {name: preset_grid_of(name, scale, Records(results, warn)) for name in names}
    if json:
        print_json({name: {"headings": headings, "rows": rows} for name, (headings, rows) in grids.items()})
        return
    for name, (headings, rows) in grids.items():
        show_rows(f"{name} ({scale} scale): our median (the paper's)", headings, rows, headings[:1], markdown)


def show_summary(names: list[str], scale: ScaleName, preset: str, results: Path, json: bool, markdown: bool) -> None:
    from icecore.reporting.summary import HEADINGS, summary_of
    from icecore.store import Records

    rows = summary_of(names, scale, preset, Records(results, warn))
    if json:
        print_json({"summary": [dict(zip(HEADINGS, row, strict=True)) for row in rows]})
    else:
        show_rows(f"Numbers of the paper ({scale} scale, preset {preset})", HEADINGS, rows, HEADINGS[:2], markdown)


def show_rows(
    title: str, headings: tuple[str, ...], rows: list[tuple[str, ...]], left: tuple[str, ...], markdown: bool
) -> None:
    if markdown:
        from icecore.reporting.markdown import markdown_table

        print(markdown_table(headings, rows))
        return
    print_table(title, {heading: "left" if heading in left else "right" for heading in headings}, rows)


def as_json(claim: "Claim") -> dict[str, Any]:
    return {**dataclasses.asdict(claim), "n": claim.n, "spread": claim.spread}


def row_of(claim: "Claim") -> tuple[str, ...]:
    from icecore.reporting.claims import shown

    def words(value: float | None) -> str:
        return shown(value, claim.digits)

    return (
        claim.name,
        claim.cell,
        words(claim.paper),
        words(claim.ours),
        str(claim.n),
        "" if claim.spread is None else f"{words(claim.spread[0])} to {words(claim.spread[1])}",
        words(claim.floor),
        claim.tolerance,
        claim.verdict,
    )
