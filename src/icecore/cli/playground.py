"""`icecore playground`: a small run that computes in a page."""

from pathlib import Path
from typing import Any

import typer

from icecore.cli.options import OUTPUT_PANEL
from icecore.cli.output import JSON_OPTION, counted, print_json, say, say_aside
from icecore.cli.progress import training_progress
from icecore.cli.report import MIB
from icecore.cli.run_folders import RUN, TRUST, require_elsewhere
from icecore.errors import require


def command(
    run: Path = RUN,
    out: Path = typer.Option(
        Path("playground.html"),
        help="The page to write; FILE.json writes its data alone, which icecore report shows if it is in "
        "RESULTS/playground/.",
        rich_help_panel=OUTPUT_PANEL,
    ),
    snapshots: int = typer.Option(
        20,
        min=0,
        max=200,
        help="Steps of the slider. One seed is trained again on the CPU to keep them; 0 keeps only the untrained and "
        "the trained state, at once.",
    ),
    seed: int | None = typer.Option(None, help="Whose training is watched. Default: the run's first."),
    items: int = typer.Option(
        100, min=1, max=2_000, help="Test items to keep, for the accuracy that the page computes."
    ),
    title: str = typer.Option("", help="Title of the page. Default: the task and the width."),
    trust: bool = TRUST,
    json: bool = JSON_OPTION,
) -> None:
    """Write a page in which a small run computes.

    [bold]Examples[/bold]

    icecore playground runs/needle/0123456789ab
    icecore playground RUN --snapshots 40 --out needle.html

    On the page, move through the training, type prompts and exchange the body. The page draws the frozen body from its
    seed and holds the embeddings in 16 bits, so it is small. It shows the probabilities of the next token, attention
    and embeddings, and computes the accuracy on test items, also with the embeddings around another random body. For
    transformers of width 128 or so.
    """
    from icecore.page.document import page_html
    from icecore.page.playground import PlaygroundOptions, playground_of
    from icecore.page.report import made
    from icecore.process import configure_process
    from icecore.store import remember_source, require_writable, write_json, write_whole

    configure_process()
    remember_source()
    require(out.suffix.lower() in (".html", ".htm", ".json"), f"--out must end in .html or .json, got {out}")
    require_writable(out)
    require_elsewhere(run, out)
    with training_progress("training again") as on_training:
        data = playground_of(run, PlaygroundOptions(snapshots, items, seed), trust, on_training)
    if out.suffix.lower() == ".json":
        write_json(out, data)
    else:
        name = title or f"{data['task']['name']}, width {data['model']['width']}"
        page = {"kind": "playground", "title": name, "made": made(), "playgrounds": [data]}
        with write_whole(out) as stream:
            stream.write(page_html(page, name))
    show(data, out, json)


def show(data: dict[str, Any], out: Path, json: bool) -> None:
    watched = data["sets"][0]
    accuracy = watched["snapshots"][-1]["accuracy"]
    if json:
        counts = {"snapshots": len(watched["snapshots"]), "seeds": [each["seed"] for each in data["sets"]]}
        print_json({"files": [str(out)], "bytes": out.stat().st_size, "accuracy": accuracy, **counts})
        return
    body = "stored in 16 bits" if data["bodies"] else "drawn from its seed"
    say(
        f"{data['task']['name']}: {counted(len(watched['snapshots']), 'snapshot')} of seed {watched['seed']}, test "
        f"accuracy {accuracy:.4f} at the end; body {body}; {out.stat().st_size / MIB:.1f} MiB in {out}"
    )
    others = [str(each["seed"]) for each in data["sets"][1:]]
    if others:
        say_aside(f"embeddings of seed {', '.join(others)} after training are in it too")
