"""`icecore show`: a run's config, progress and result; or the runs in a folder."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from icecore.cli.output import JSON_OPTION, counted, print_json, print_table, say
from icecore.cli.sweeps import warn
from icecore.cli.terminal_table import terminal_width, wrapped
from icecore.errors import InputError, printable_line
from icecore.reporting.table import Table


def command(
    run: Path = typer.Argument(..., metavar="RUN", help="A run's folder, or a folder of runs to list."),
    json: bool = JSON_OPTION,
) -> None:
    """Show a run's settings and result, or list a folder of runs.

    [bold]Examples[/bold]

    icecore show runs/needle/0123456789ab
    icecore show runs

    The list shows the settings in which a run differs from most runs of its task and model.
    """
    from icecore.training.run_folder import RunFolder
    from icecore.training.stored_config import read_config, require_begun

    folder = RunFolder(run)
    below = [] if folder.is_begun else runs_below(run)
    if below:
        list_runs(run, below, json)
        return
    folder.remove_leftovers()
    require_begun(run)
    config, rows = read_config(run), list(folder.metrics())
    result = folder.result() if folder.is_complete else None
    if json:
        print_json({"config": config, "result": result, "last": rows[-1] if rows else None})
        return
    step = rows[-1]["step"] if rows else 0
    for name, text in [*config_lines(config), *(result_lines(result) if result else [unfinished(config, step)])]:
        # A command is to be copied: the terminal wraps it.
        width = None if name == "made by" else terminal_width()
        say(wrapped(printable_line(text), width, f"{name + ':':<11} ", " " * 12))


def runs_below(folder: Path) -> list[Path]:
    """Return the folders of runs; delete what killed processes left among them."""
    from icecore.store.temporary import is_temporary, remove_if_abandoned
    from icecore.training.run_folder import RunFolder
    from icecore.training.stored_config import CONFIG

    found = []
    for path in sorted(each.parent for each in folder.glob(f"**/{CONFIG}")):
        if is_temporary(path):
            remove_if_abandoned(path)
        else:
            RunFolder(path).remove_leftovers()
            found.append(path)
    return found


def config_lines(config: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the config as lines of (name, text)."""
    from icecore.training.stored_config import phases_of

    task, model = config["task"], config["model"]
    lines = [
        ("task", f"{task['name']}: {settings_in_words(task.get('settings', {}))}"),
        ("model", f"{model['name']}: {settings_in_words(model.get('settings', {}))}"),
        ("positions", str(config.get("positions"))),
    ]
    for kind, part in (("task", task), ("model", model)):
        if "file" in part:
            lines.append((f"{kind} file", f"{part['file']}:{part.get('class')}, SHA-256 {part.get('source')}"))
    if "start" in config:
        lines.append(("start", start_in_words(config["start"])))
    if "embedding_rank" in config:
        lines.append(("embeddings", rank_in_words(config["embedding_rank"])))
    for phase in phases_of(config):
        lines += [
            ("trained", str(phase.get("trainable"))),
            ("training", settings_in_words(phase.get("optimization", {}))),
        ]
    rest = {"data seed": config.get("data_seed"), "precision": config.get("precision")}
    return [*lines, ("seeds", f"{', '.join(map(str, config.get('seeds', [])))}; {settings_in_words(rest)}")]


def start_in_words(start: Mapping[str, Any]) -> str:
    """Describe the run that a run starts from, and what was taken."""
    where = start.get("where", {})
    shift, words = start.get("shift", 0), {"all": "all parameters", "embeddings": "the embeddings", "body": "the body"}
    pairs = f", seed s from seed s - {shift}" if shift else ""
    scale = f", {start['rescaled']} rescaled to initial norms" if start.get("rescaled") else ""
    what = words.get(str(start.get("take")), "what")
    return f"{what} of {where.get('task')}/{where.get('run')} (setting {start.get('setting')}){pairs}{scale}"


def rank_in_words(rank: Mapping[str, Any]) -> str:
    return f"rank {rank.get('rank')}, basis {rank.get('basis')}, of {in_a_cell(rank.get('of'))}"


def result_lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the result as lines of (name, text)."""
    per_seed = {name: value for name, value in result.items() if isinstance(value, list) and name != "seeds"}
    baselines = {**result["baselines"], **result.get("loss_baselines", {})}
    lines = [(name.replace("_", " "), " ".join(map(in_a_cell, values))) for name, values in per_seed.items()]
    lines += [
        ("baselines", settings_in_words(baselines) or "none"),
        ("parameters", f"{result['trained_parameters']:,} trained, {result['frozen_parameters']:,} frozen"),
        ("finished", f"{counted(result['steps'], 'step')} in {result['seconds']:.1f} s on {result['device']}"),
        ("made by", f"{result.get('command', 'unknown')} (commit {result.get('commit', 'unknown')})"),
    ]
    if result.get("weights") == "float16":
        lines.append(("weights", "16 bits, stored after the accuracy was measured; icecore evaluate measures them"))
    return lines


def unfinished(config: dict[str, Any], step: int) -> tuple[str, str]:
    from icecore.training.stored_config import phases_of

    counts = [phase["optimization"].get("steps", 0) for phase in phases_of(config)]
    steps = sum(count for count in counts if type(count) is int)
    return "unfinished", f"{step:,} of {steps:,} steps logged; the same icecore train with --resume continues it"


def settings_in_words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {in_a_cell(value)}" for name, value in settings.items())


def in_a_cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(in_a_cell, value))
    if isinstance(value, float):
        return f"{value:.4f}" if 0.001 <= abs(value) < 1 and f"{value:.4g}" != str(value) else f"{value:.4g}"
    return "" if value is None else f"{value:,}" if type(value) is int else str(value)


def list_runs(folder: Path, paths: Sequence[Path], json: bool) -> None:
    rows = []
    for path in paths:
        try:
            rows.append(row_of(folder, path))
        except (InputError, KeyError, TypeError, AttributeError, ValueError) as error:
            warn(f"{path} is damaged and skipped: {error}")
    if json:
        print_json({"runs": rows})
        return
    unusual = unusual_settings(rows)
    headings = ("run", "model", "trained", "seeds", "accuracy", "settings")
    cells = [line for row, own in zip(rows, unusual, strict=True) for line in lines_of(row, own)]
    title = f"{counted(len(rows), 'run')} in {folder}"
    if any(unusual):
        title += "; below a run: settings that most runs do not have"
    left = ("run", "model", "trained", "settings")
    print_table(Table(title, headings, cells, left, wraps=("settings",)))


def lines_of(row: Mapping[str, Any], own: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the cells of a run, with each further phase on a line of its own."""
    first, *later = row["phases"]
    shown = {name: value for name, value in own.items() if not name.startswith("phase ")}
    lines = [
        (
            row["run"],
            f"{row['model']} {row['settings'].get('model.width', '')}".strip(),
            first,
            in_short(row["seeds"]),
            spread(row["accuracy"]) or f"step {row['step']:,} of {row['steps']:,}",
            settings_in_words(shown),
        )
    ]
    for number, trained in enumerate(later, 2):
        prefix = f"phase {number}."
        shown = {name.removeprefix(prefix): value for name, value in own.items() if name.startswith(prefix)}
        lines.append(("", "", f"then {trained}", "", "", settings_in_words(shown)))
    return lines


def row_of(folder: Path, path: Path) -> dict[str, Any]:
    """Return one row of the list: the flattened config, the progress and the accuracies."""
    from icecore.training.run_folder import RunFolder
    from icecore.training.stored_config import phases_of, read_config

    config, run = read_config(path), RunFolder(path)
    result, phases = run.result() if run.is_complete else {}, phases_of(config)
    steps = sum(phase["optimization"]["steps"] for phase in phases)
    last = max((row["step"] for row in run.metrics()), default=0)
    settings = {
        f"{part}.{name}": value for part in ("task", "model") for name, value in config[part]["settings"].items()
    }
    settings |= {name: config[name] for name in ("positions", "data_seed", "precision")}
    if "start" in config:
        settings["start"] = f"{config['start'].get('take')} of {config['start'].get('where', {}).get('run')}"
    if "embedding_rank" in config:
        settings["embeddings"] = rank_in_words(config["embedding_rank"])
    for number, phase in enumerate(phases, 1):
        prefix = f"phase {number}." if number > 1 else ""
        settings |= {f"{prefix}{name}": value for name, value in phase["optimization"].items()}
    return {
        "run": str(path.relative_to(folder)),
        "task": config["task"]["name"],
        "model": config["model"]["name"],
        "settings": settings,
        "trained": ", then ".join(phase["trainable"] for phase in phases),
        "phases": [phase["trainable"] for phase in phases],
        "seeds": config["seeds"],
        "step": steps if run.is_complete else last,
        "steps": steps,
        "accuracy": result.get("accuracy"),
    }


def unusual_settings(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each run's settings that most runs of its task and model do not have; the width has a column."""
    found: list[dict[str, Any]] = [{} for _ in rows]
    kinds = [(row["task"], row["model"]) for row in rows]
    for kind in set(kinds):
        own = [index for index, other in enumerate(kinds) if other == kind]
        names = dict.fromkeys(name for index in own for name in rows[index]["settings"] if name != "model.width")
        short = Counter(name.rpartition(".")[2] for name in names)
        for name in names:
            values = {index: rows[index]["settings"].get(name, "default") for index in own}
            counts = Counter(map(repr, values.values()))
            word = name.rpartition(".")[2]
            for index, value in values.items():
                if 2 * counts[repr(value)] <= len(own):
                    found[index][word if short[word] == 1 else name] = value
    return found


def in_short(seeds: Sequence[int]) -> str:
    """Return 0-9 for consecutive seeds, else 0,3,7."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}-{seeds[-1]}"
    return ",".join(map(str, seeds))


def spread(values: Sequence[float] | None) -> str:
    if not values:
        return ""
    least, most = f"{min(values):.3f}", f"{max(values):.3f}"
    return least if least == most else f"{least} to {most}"
