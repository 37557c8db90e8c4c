"""`icecore track`: is a thawed mechanism refined or replaced?"""

from pathlib import Path

import typer

from icecore.cli.figures import files_at
from icecore.cli.options import OUTPUT_PANEL
from icecore.cli.output import JSON_OPTION, print_json, print_table, say
from icecore.cli.progress import stage_progress
from icecore.cli.run_folders import RUN, SEEDS_OF_RUN, TRUST, require_elsewhere, seeds_of_run


def command(
    run: Path = RUN,
    seeds: str | None = typer.Option(None, help=f"{SEEDS_OF_RUN} Default: all."),
    items: int = typer.Option(500, min=1, help="Test items per measure."),
    beside: Path | None = typer.Option(
        None, metavar="RUN", help="Full training from the same seeds: the same measures on it, as a control."
    ),
    figure: Path | None = typer.Option(
        None, help="Also draw the scores against the step: a file, or a folder.", rich_help_panel=OUTPUT_PANEL
    ),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    out: Path | None = typer.Option(
        None, help="Also write the JSON to this file, with commit, command and device.", rich_help_panel=OUTPUT_PANEL
    ),
    trust: bool = TRUST,
    json: bool = JSON_OPTION,
) -> None:
    """Tell whether training the body refined or replaced a mechanism.

    [bold]Examples[/bold]

    icecore train needle --from RUN --trainable all --lr 1e-3 --snapshots 20
    icecore track RUN --figure track.png
    icecore track RUN --beside NORMAL

    RUN starts from another run, or has phases; its body trains last. Each measure stands between two references: an
    unchanged mechanism (score 1) and an unrelated network, or the best baseline (score 0).

    [bold]swap[/bold]: new embeddings on the old body, old ones on the new body.
    [bold]directions[/bold]: the old top directions, kept and removed in the new network.
    [bold]activations[/bold]: those of one network put into the other.
    [bold]barrier[/bold]: how far the loss rises on the line between old and new weights.
    [bold]frequencies[/bold]: the old key frequencies removed from the new embeddings (modular addition).
    [bold]others[/bold]: displacement, CKA, overlaps of directions, of attention, and of frequencies.
    """
    from icecore.drawing import require_drawable, write
    from icecore.process import configure_process
    from icecore.reporting.pathway import draw, tables
    from icecore.store import provenance, remember_source, require_writable, write_json
    from icecore.sweeps.tracking import Track, track
    from icecore.training import RunFolder, device_name, pick_device

    configure_process()
    remember_source()
    require_elsewhere(run, out, figure)
    files = [] if figure is None else files_at(figure, "track")
    require_drawable(files)
    if out is not None:
        require_writable(out)
    where = pick_device(device)
    config, population = RunFolder(run, trust).load(where)
    chosen = config.seeds if seeds is None else seeds_of_run(seeds, config.seeds)
    tracked = Track(run, config, population, chosen)
    if beside is not None:
        other = RunFolder(beside, trust).load(where)
        tracked = tracked.beside_run(*other, str(beside))
    with stage_progress() as on_progress:
        result = track(tracked, items, on_progress)
    if files:
        write(draw(result), files)
    if out is not None:
        write_json(out, {**provenance(device_name(where)), "run": str(run), **result})
    if json:
        print_json({"run": str(run), **result, "figures": [str(file) for file in files]})
        return
    first, *others = tables(result)
    print_table(first)
    for table in others:
        say()
        print_table(table)
    for file in files:
        say(file)
