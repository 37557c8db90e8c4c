"""The end of `icecore train` and `icecore evaluate`: a run's accuracies, baselines, probes and counts."""

from typing import TYPE_CHECKING

from icecore.cli.bodies import kind_of
from icecore.cli.output import counted, print_json, print_table, say
from icecore.errors import printable_line
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.training import RunConfig, TrainedRun

LEAD = 0.005  # by which a lazy rule must beat the task's own baselines: rules are fitted to random items
HEADINGS = {"loss_per_byte": "nats per byte"}


def report(run: "TrainedRun", json: bool) -> None:
    result = run.result
    if json:
        print_json({"run": str(run.path), "run_id": run.config.run_id, **result})
        return
    shown = {*run.config.task.metrics(), "train_accuracy", "loss_per_byte"}
    names = [name for name in result if name in shown]
    config = run.config
    trained = ", then ".join(phase.trainable for phase in config.phases)
    title = f"{config.task.name}, {kind_of(config.model)}, width {config.model.width}, trained: {trained}"
    rows = [
        (str(seed), *(f"{result[name][index]:.4f}" for name in names), f"{result['loss'][index]:.4f}")
        for index, seed in enumerate(result["seeds"])
    ]
    headings = ("seed", *(HEADINGS.get(name, name.replace("_", " ")) for name in names), "test loss")
    print_table(Table(title, headings, rows))
    show_probes(run)
    for kind in ("baselines", "loss_baselines"):
        baselines = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in result.get(kind, {}).items())
        if baselines or kind == "baselines":
            say(f"{kind.replace('_', ' ')}: {baselines or 'none'}")
    say_lazy_rule(run)
    say(
        f"{result['trained_parameters']:,} parameters trained, {result['frozen_parameters']:,} frozen{state_of(config)}"
    )
    device = printable_line(result["device"])
    say(f"{counted(result['steps'], 'step')} in {result['seconds']:.1f} s on {device}; saved in {run.path}")


def say_lazy_rule(run: "TrainedRun") -> None:
    """Print the strongest lazy rule if it beats the task's own baselines: its author need not have thought of it."""
    from icecore.tasks.lazy import strongest_lazy_rule
    from icecore.user_code import reraise_user_error

    task = run.config.task
    with reraise_user_error(f"{task.name} fails"):
        rule = strongest_lazy_rule(task)
    if rule is not None and rule.accuracy > max(run.result["baselines"].values(), default=0.0) + LEAD:
        say(f"strongest lazy rule: {rule.name.replace('_', ' ')} {rule.accuracy:.4f}; icecore tasks lists all")


def state_of(config: "RunConfig") -> str:
    """Describe the size of a sequence's state, which the last token reads."""
    before = config.task.max_length - 1
    size = config.model.state_size(before)
    return "" if size is None else f"; state size {size:,} after {counted(before, 'token')}"


def show_probes(run: "TrainedRun") -> None:
    """Print each probe's first and last number per seed; metrics.jsonl has those in between."""
    measured = [row for row in run.metrics if row.get("probes")]
    if not measured:
        return
    first, last = measured[0], measured[-1]
    rows = [
        (name, str(seed), *(f"{row['probes'][name][index]:,.4g}" for row in (first, last)))
        for name in last["probes"]
        for index, seed in enumerate(run.config.seeds)
        if name in first["probes"]
    ]
    headings = ("probe", "seed", *(f"step {row['step']:,}" for row in (first, last)))
    print_table(Table("Probes, before training and at the end", headings, rows, left=("probe",)))
