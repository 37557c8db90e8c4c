"""The end of `icecore train` and `icecore evaluate`: a run's accuracies, baselines, probes and counts."""

from typing import TYPE_CHECKING

from icecore.cli.bodies import kind_of
from icecore.cli.output import counted, print_json, print_table, say_wrapped
from icecore.errors import printable_line
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.training import TrainedRun

LEAD = 0.005  # by which a lazy rule must beat the task's own baselines: rules are fitted to random items


def report(run: "TrainedRun", json: bool) -> None:
    from icecore.training.summary import baselines_in_words, counts_in_words, seed_rows, trained_parts

    result, config = run.result, run.config
    if json:
        print_json({"run": str(run.path), "run_id": config.run_id, **result})
        return
    title = f"{config.task.name}, {kind_of(config.model)}, width {config.model.width}, trained: {trained_parts(config)}"
    headings, *rows = seed_rows(run)
    print_table(Table(title, headings, rows))
    show_probes(run)
    for line in baselines_in_words(result):
        say_wrapped(line)
    say_lazy_rule(run)
    say_wrapped(counts_in_words(run))
    device = printable_line(result["device"])
    say_wrapped(f"{counted(result['steps'], 'step')} in {result['seconds']:.1f} s on {device}; saved in {run.path}")


def say_lazy_rule(run: "TrainedRun") -> None:
    """Print the strongest lazy rule if it beats the task's own baselines: its author need not have thought of it."""
    from icecore.tasks.lazy import strongest_lazy_rule
    from icecore.user_code import reraise_user_error

    task = run.config.task
    with reraise_user_error(f"{task.name} fails"):
        rule = strongest_lazy_rule(task)
    if rule is not None and rule.accuracy > max(run.result["baselines"].values(), default=0.0) + LEAD:
        say_wrapped(f"strongest lazy rule: {rule.name.replace('_', ' ')} {rule.accuracy:.4f}; icecore tasks lists all")


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
