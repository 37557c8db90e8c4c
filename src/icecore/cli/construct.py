"""`icecore construct`: the paper's constructions of appendix F as explicit weights, checked."""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from icecore.cli.options import OUTPUT_PANEL, TASK_PANEL, TASK_PRESET
from icecore.cli.output import (
    CSV,
    JSON_OPTION,
    MARKDOWN,
    Format,
    format_of,
    print_json,
    print_table,
    say,
    say_aside,
    with_progress,
)
from icecore.cli.settings import task_settings
from icecore.cli.sweeps import warn
from icecore.errors import InputError, require, unknown_name
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.constructions import Check, Constructed

SUFFIX = ".safetensors"


def command(
    context: typer.Context,
    name: str | None = typer.Argument(
        None,
        metavar="NAME|FILE",
        help="modular-addition, needle, decimal-addition, parentheses; or FILE.safetensors.",
    ),
    preset: str = TASK_PRESET,
    copies: int | None = typer.Option(
        None,
        help="Circles of modular addition. The paper has 3; with layer norm 1 is enough.",
        rich_help_panel=TASK_PANEL,
    ),
    out: Path | None = typer.Option(
        None, help="Write the weights, in float64: FILE.safetensors.", rich_help_panel=OUTPUT_PANEL
    ),
    results: Path = typer.Option(
        Path("results"), help="Records to take the measured widths from.", rich_help_panel=OUTPUT_PANEL
    ),
    json: bool = JSON_OPTION,
    markdown: bool = MARKDOWN,
    csv: bool = CSV,
) -> None:
    """Write and check the paper's explicit weights (appendix F).

    [bold]Examples[/bold]

    icecore construct
    icecore construct needle --max-pairs 4 --out needle.safetensors
    icecore construct modular-addition --copies 1
    icecore construct needle.safetensors

    Nothing is trained. The weights are those of our transformer, with one head. Settings of the task are flags. Their
    widths stand beside the smallest ones that sufficed in training, from the records in --results. A FILE is loaded and
    checked again; in Python, icecore.constructions.load_construction(FILE).
    """
    from icecore.constructions import CONSTRUCTIONS

    require(out is None or name is not None, "--out writes one construction: name it")
    require(out is None or out.suffix == SUFFIX, f"--out must end in {SUFFIX}, got '{out}'")
    require(copies is None or name == "modular-addition", "--copies is a setting of modular-addition alone")
    chosen = format_of(markdown, csv)
    made = constructed(context, name, preset, copies)
    if out is not None:
        made[0].save(out)
        say_aside(f"written to {out}")
    checked = list(with_progress(all_checks(made), 2 * len(made), "checking"))
    widths = measured(results, sorted({one.construction.name for one in made}, key=list(CONSTRUCTIONS).index))
    if json:
        print_json(as_json(made, checked, widths))
    else:
        show(made, checked, widths, chosen)
    wrong = [each for _, each in checked if each.wrong["float64"]]
    if wrong:
        worst = wrong[0]
        raise InputError(
            f"the weights for {worst.construction} are wrong on {worst.wrong['float64']:,} of {worst.items:,} items in "
            "float64: a smaller task needs less precision"
        )


def constructed(context: typer.Context, name: str | None, preset: str, copies: int | None) -> "list[Constructed]":
    """Return the named construction, or all."""
    from icecore.constructions import CONSTRUCTIONS, all_constructed, construct, load_construction
    from icecore.tasks import make_task

    if name is None:
        return all_constructed(preset)
    if name.endswith(SUFFIX):
        require(not context.args, f"{' '.join(context.args)}: a file has its own settings")
        return [load_construction(name)]
    if name not in CONSTRUCTIONS:
        raise unknown_name("construction", name, [*CONSTRUCTIONS, f"FILE{SUFFIX}"])
    task = make_task(name, preset, task_settings(context, name))
    return [construct(task, **({} if copies is None else {"copies": copies}))]


def all_checks(made: "Sequence[Constructed]") -> "Iterator[tuple[Constructed, Check]]":
    from icecore.constructions import checks_of

    return ((each, one) for each in made for one in checks_of(each))


def measured(results: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the measured widths of these tasks, by row; empty, with a message, if there are no records."""
    from icecore.paper.appendix_f import sufficient_widths
    from icecore.paper.settings import remembered_settings
    from icecore.store import Records

    records = Records(results, warn)
    if not records.path.exists():
        say_aside(f"there is no {records.path}, so measured widths are left out; name another folder with --results")
        return {}
    with remembered_settings():
        found = sufficient_widths(records)
    return {row: lines for row, lines in found.items() if row.partition(",")[0] in names}


def as_json(
    made: "Sequence[Constructed]", checked: "Sequence[tuple[Constructed, Check]]", widths: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    return {
        "constructions": [
            {
                "name": one.construction.name,
                **one.options,
                "width": one.model.width,
                "layers": one.model.layers,
                "heads": one.model.heads,
                "checks": [dataclasses.asdict(each) for of, each in checked if of is one],
            }
            for one in made
        ],
        "trained": {
            task: {line: dataclasses.asdict(each) for line, each in lines.items()} for task, lines in widths.items()
        },
    }


def show(
    made: "Sequence[Constructed]",
    checked: "Sequence[tuple[Constructed, Check]]",
    widths: dict[str, dict[str, Any]],
    format: Format,
) -> None:
    from icecore.paper.appendix_f import widths_table

    print_table(table_of_checks(checked), format)
    if not widths:
        return
    if format is not Format.csv:
        say()
    print_table(widths_table(made, widths), format)


def table_of_checks(checked: "Sequence[tuple[Constructed, Check]]") -> Table:
    rows = [
        (
            one.label,
            str(one.model.width),
            str(one.model.layers),
            f"{each.items_of}, {each.settings}" if each.settings else each.items_of,
            f"{each.items:,}",
            *(f"{count:,}" for count in each.wrong.values()),
        )
        for one, each in checked
    ]
    headings = ("construction", "width", "layers", "checked on", "items", *checked[0][1].wrong)
    title = "Appendix F's constructions as weights, with one head: number of wrong items, by precision"
    return Table(title, headings, rows, left=("construction", "checked on"))
