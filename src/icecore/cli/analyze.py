"""`icecore analyze`: look inside a run."""

from pathlib import Path
from typing import Any

import typer

from icecore.cli.output import JSON_OPTION, print_json, print_table
from icecore.cli.runs import RUN
from icecore.cli.watching import watching_stages
from icecore.errors import InputError, require, unknown_name


def analyze_command(
    run: Path = RUN,
    what: str | None = typer.Option(
        None, help="variance, causal, attention, modular, readout, capacity, with commas. Default: what fits the task."
    ),
    seed: int | None = typer.Option(None, help="Which seed. Default: the run's first."),
    positions: str = typer.Option(
        "read", help="Which activations: read (up to the last scored position), all (padding too), scored, last."
    ),
    prompt: str | None = typer.Option(None, help="Of attention: a prompt in the task's notation, such as 'a 1 b 2 a'."),
    items: int = typer.Option(1000, min=1, help="Of causal and attention: how many test items."),
    place: str | None = typer.Option(
        None,
        help="Of causal: edit the stream at this place alone, such as embedding or block0.stream. Default: at all.",
    ),
    components: str | None = typer.Option(
        None, help="Of modular's figure: two principal components, such as 1,3. Default: the most circular pair."
    ),
    figures: Path | None = typer.Option(None, help="Also draw figures into this folder, as PNG and PDF."),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    out: Path | None = typer.Option(None, help="Also write the JSON here, with commit, command and device."),
    json: bool = JSON_OPTION,
) -> None:
    """Look inside a trained run. Every number has its control beside it: the same body before training.

    variance: how much of the residual stream its top 10 directions and neurons hold (Table 4). causal: accuracy when
    the stream keeps, or loses, its top k directions. attention: the heads that look things up (Figure 2). modular:
    circles in the embedding of modular addition (Figure 3). readout: the best that an unembedding alone can do,
    solved. capacity: memorized bits (Table 3).
    """
    from icecore.analysis.moments import POSITIONS
    from icecore.process import prepare
    from icecore.reporting.inside import Subject, analyses_for, look_inside
    from icecore.store import provenance, remember_source, write_json
    from icecore.training import RunFolder, device_name, pick_device

    prepare()
    remember_source()
    if positions not in POSITIONS:
        raise unknown_name("choice of positions", positions, list(POSITIONS))
    pair = None if components is None else parse_components(components)
    config, population = RunFolder(run).load(pick_device(device))
    subject = Subject.of(config, population, config.seeds[0] if seed is None else seed)
    names = analyses_for(subject, [] if what is None else [word.strip() for word in what.split(",")])
    with watching_stages() as tell:
        found = dict(look_inside(subject, names, positions, prompt, items, place, tell))
    files: list[Path] = []
    if figures is not None:
        from icecore.reporting.figures.inside import draw_inside

        try:
            files = draw_inside(subject, found, figures, pair)
        except OSError as error:
            raise InputError(
                f"cannot write into {figures}: {error.strerror or error}; choose another folder"
            ) from error
    if out is not None:
        write_json(out, {**provenance(device_name(population.device)), "run": str(run), "analyses": found})
    if json:
        print_json({"run": str(run), "analyses": found, "figures": [str(file) for file in files]})
        return
    for name, result in found.items():
        SHOW[name](result)
    for file in files:
        print(file)


def parse_components(text: str) -> tuple[int, int]:
    words = text.split(",")
    require(
        len(words) == 2 and all(word.strip() in ("1", "2", "3", "4") for word in words),
        f"--components must be two of 1 to 4, as in 1,3, got '{text}'",
    )
    first, second = (int(word) - 1 for word in words)
    require(first != second, f"--components must be two different ones, got '{text}'")
    return first, second


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def show_variance(result: dict[str, Any]) -> None:
    rows = []
    for place, trained in result["trained"].items():
        untrained = result["untrained"][place]
        each = (trained["directions"], untrained["directions"], trained["neurons"], untrained["neurons"])
        rows.append((place, *map(percent, each)))
    print_table(
        f"% of variance within the top 10, over {result['activations']:,} activations ({result['positions']})",
        {"place": "left", "directions": "right", "untrained": "right", "neurons": "right", "untrained ": "right"},
        rows,
    )


def show_causal(result: dict[str, Any]) -> None:
    counts = result["curves"][0]["counts"]
    print_table(
        f"% accuracy on {result['items']} test items when the stream keeps, or loses, k directions "
        f"at {', '.join(result['curves'][0]['places'])}",
        {"": "left", "k =": "left", **{str(count): "right" for count in counts}},
        ((curve["mode"], curve["basis"], *map(percent, curve["accuracy"])) for curve in result["curves"]),
    )
    (kept,) = [curve for curve in result["curves"] if (curve["mode"], curve["basis"]) == ("keep", "directions")]
    print(f"against shuffled answers, directions kept: {' '.join(map(percent, kept['shuffled']))}")


def show_attention(result: dict[str, Any]) -> None:
    rows = []
    for name in ("trained", "untrained"):
        for step in ("value_to_marker", "query_to_value") if name in result else ():
            head = result[name][f"best_{step}"]
            uniform = result[name]["uniform"][step == "query_to_value"]
            where = f"layer {head['layer']}, head {head['head']}"
            rows.append((name, step.replace("_", " "), where, f"{head['score']:.3f}", f"{uniform:.3f}"))
    if rows:
        print_table(
            "The heads that look most from each value to its marker, and from the query to its value",
            {"": "left", "attention": "left", "best head": "left", "mean": "right", "uniform": "right"},
            rows,
        )
    if "prompt" in result:
        words, maps = result["prompt"]["words"], result["prompt"]["maps"]
        rows = []
        for layer, heads in enumerate(maps, start=1):
            for head, rows_of_head in enumerate(heads, start=1):
                at = max(range(len(words)), key=lambda index, last=rows_of_head[-1]: last[index])
                rows.append((f"layer {layer}, head {head}", words[at], str(at + 1), f"{rows_of_head[-1][at]:.3f}"))
        print_table(
            f"Where the last token of '{' '.join(words)}' looks most",
            {"": "left", "at": "left", "place": "right", "attention": "right"},
            rows,
        )


def show_modular(result: dict[str, Any]) -> None:
    names = ("circularity", "gradient_symmetricity", "distance_irrelevance", "distance_irrelevance_of_largest_wrong")
    print_table(
        "Modular addition",
        {"": "left", "trained": "right", "untrained": "right"},
        (
            (name.replace("_", " "), *(f"{result[which][name]:.3f}" for which in ("trained", "untrained")))
            for name in names
        ),
    )
    for which in ("trained", "untrained"):
        print(f"key frequencies, {which}: {', '.join(map(str, result[which]['key_frequencies'])) or 'none'}")


def show_readout(result: dict[str, Any]) -> None:
    print_table(
        "The unembedding alone on the untouched body, solved; accuracy in %",
        {"": "left", "train": "right", "test": "right", "scored positions": "right"},
        (
            (one["kind"], percent(one["train_accuracy"]), percent(one["test_accuracy"]), f"{one['items']:,}")
            for one in result["readouts"]
        ),
    )
    print(f"floors: {', '.join(f'{name} {percent(value)}' for name, value in result['floors'].items())}")


def show_capacity(result: dict[str, Any]) -> None:
    print_table(
        "Memorized bits",
        {"": "left", "trained": "right", "untrained": "right"},
        (
            (name.replace("_", " "), *(f"{result[which][name]:,.2f}" for which in ("trained", "untrained")))
            for name in result["trained"]
        ),
    )


SHOW = {
    "variance": show_variance,
    "causal": show_causal,
    "attention": show_attention,
    "modular": show_modular,
    "readout": show_readout,
    "capacity": show_capacity,
}
