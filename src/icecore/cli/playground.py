"""`icecore playground`: small runs that compute in a page."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from icecore.cli.options import OUTPUT_PANEL
from icecore.cli.output import JSON_OPTION, counted, print_json, say, say_aside
from icecore.cli.progress import sweep_progress, training_progress
from icecore.cli.report import MIB
from icecore.cli.run_folders import TRUST, require_elsewhere
from icecore.errors import require

DEMO = Path("runs/playground")  # where the small runs are trained
PAGES, DATA = (".html", ".htm"), ".json"


def command(
    runs: list[Path] = typer.Argument(
        None,
        metavar="RUN",
        help=f"Runs' folders. Default: needle, parentheses and modular addition, trained first, in {DEMO}.",
        show_default=False,
    ),
    out: Path = typer.Option(
        Path("playground.html"),
        help="The page to write. FILE.json writes one run's data alone, and a folder a file per task, which icecore "
        "report shows if they are in RESULTS/playground.",
        rich_help_panel=OUTPUT_PANEL,
    ),
    snapshots: int = typer.Option(
        20,
        min=0,
        max=200,
        help="Steps of the slider, at most. They are those that the run saved (train --snapshots). A run without any "
        "is trained again, one seed on the CPU; 0 keeps only the untrained and the trained state, at once.",
    ),
    seed: int | None = typer.Option(None, help="Whose training is watched. Default: the run's first."),
    items: int = typer.Option(
        100, min=1, max=2_000, help="Test items to keep, for the accuracy that the page computes."
    ),
    title: str = typer.Option("", help="Title of the page. Default: the tasks and widths."),
    trust: bool = TRUST,
    json: bool = JSON_OPTION,
) -> None:
    """Write a page in which small runs compute.

    [bold]Examples[/bold]

    icecore playground --out three.html
    icecore playground runs/needle/0123456789ab
    icecore playground RUN --snapshots 40 --out needle.html

    Without RUN, three small runs are trained first, in about five minutes on two cores.

    On the page, move through the training, type prompts and exchange the body. The page draws the frozen body from its
    seed and holds the embeddings in 16 bits, so it is small. It shows the probabilities of the next token, attention
    and embeddings, and computes the accuracy on test items, also with the embeddings around another random body. For
    transformers of width 128 or so.
    """
    from icecore.page.document import page_html
    from icecore.page.playground import PlaygroundOptions
    from icecore.page.report import made
    from icecore.process import configure_process
    from icecore.store import remember_source, require_writable, write_whole

    configure_process()
    remember_source()
    folders = list(dict.fromkeys(runs or []))
    check_out(out, folders)
    for folder in folders:
        require_elsewhere(folder, out)
    if out.suffix:
        require_writable(out)
    found = played(folders or trained(), PlaygroundOptions(snapshots, items=items, seed=seed), trust)
    files = [out]
    if out.suffix.lower() not in PAGES:
        files = write_data(out, found)
    else:
        name = title or "; ".join(f"{data['task']['name']}, width {data['model']['width']}" for data in found)
        page = {"kind": "playground", "title": name, "made": made(), "playgrounds": found}
        with write_whole(out) as stream:
            stream.write(page_html(page, name))
    show(found, files, json)


def check_out(out: Path, runs: Sequence[Path]) -> None:
    suffix = out.suffix.lower()
    require(
        suffix in (*PAGES, DATA, ""), f"--out must end in .html or .json, or be a folder without an ending, got {out}"
    )
    require(suffix != DATA or len(runs) == 1, f"{out} holds one run: name one RUN, or give --out a folder or a page")
    require(suffix != "" or not out.is_file(), f"{out} is a file: give --out a folder, or FILE.html")


def trained() -> list[Path]:
    """Train the small runs that are not there yet."""
    from icecore.sweeps.demo import played_runs, train_played

    steps = sum(settings["steps"] * settings["seeds"] for settings in played_runs().values())
    with sweep_progress(steps) as progress:
        return train_played(DEMO, progress.begin)


def played(folders: Sequence[Path], options: Any, trust: bool) -> list[dict[str, Any]]:
    from icecore.page.playground import playground_of

    with training_progress("training again") as on_training:
        return [playground_of(folder, options, trust, on_training) for folder in folders]


def write_data(out: Path, found: Sequence[dict[str, Any]]) -> list[Path]:
    """Write the data of one run, or a file per run into a folder."""
    from icecore.store import require_writable, write_json

    if out.suffix:
        files = [out]
    else:
        out.mkdir(parents=True, exist_ok=True)
        tasks = [re.sub(r"[^A-Za-z0-9_-]+", "-", data["task"]["name"]) for data in found]
        files = [
            out / (f"{task}.json" if tasks.count(task) == 1 else f"{task}-{data['run']}.json")
            for task, data in zip(tasks, found, strict=True)
        ]
    for file, data in zip(files, found, strict=True):
        require_writable(file)
        write_json(file, data)
    return files


def show(found: Sequence[dict[str, Any]], files: Sequence[Path], json: bool) -> None:
    if json:
        print_json(
            {"files": [str(file) for file in files], "bytes": size_of(files), "runs": list(map(facts_of, found))}
        )
        return
    for data in found:
        facts = facts_of(data)
        body = "stored in 16 bits" if data["bodies"] else "drawn from its seed"
        say(
            f"{data['task']['name']}: {counted(facts['snapshots'], 'snapshot')} of seed {facts['seeds'][0]}, test "
            f"accuracy {facts['accuracy']:.4f} at the end; body {body}"
        )
        others = [str(seed) for seed in facts["seeds"][1:]]
        if others:
            say_aside(f"embeddings of seed {', '.join(others)} before and after training are in it too")
    say(f"{size_of(files) / MIB:.1f} MiB in {', '.join(map(str, files))}")


def size_of(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def facts_of(data: dict[str, Any]) -> dict[str, Any]:
    watched = data["sets"][0]
    return {
        "run": data["run"],
        "task": data["task"]["name"],
        "snapshots": len(watched["snapshots"]),
        "seeds": [each["seed"] for each in data["sets"]],
        "accuracy": watched["snapshots"][-1]["accuracy"],
    }
