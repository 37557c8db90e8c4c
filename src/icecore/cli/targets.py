"""`icecore targets`: the target models of circuit imitation."""

import dataclasses
from typing import TYPE_CHECKING

import typer

from icecore.cli.output import JSON_OPTION, print_json, print_table, say_wrapped, with_progress
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.training.imitation_target import TargetNumbers


def command(
    width: list[int] = typer.Option([], help="Width of the target. Repeatable. Default: those of Figure 6."),
    items: int = typer.Option(1_000, min=2, help="Random inputs to measure on."),
    json: bool = JSON_OPTION,
) -> None:
    """Measure the targets of circuit imitation.

    [bold]Examples[/bold]

    icecore targets
    icecore targets --width 64 --width 128 --items 200

    One row per width and reading of the targets' initialization. In nats: the entropy of the output, the KL
    divergence between the outputs of two inputs, and that of two constant answers, the uniform one and the target's
    mean output.
    """
    from icecore.paper.fig6 import TARGET_WIDTHS
    from icecore.tasks import Imitation
    from icecore.tasks.imitation import TARGET_INITS
    from icecore.training.imitation_target import target_numbers

    tasks = [Imitation(target_width=each, target_init=init) for init in TARGET_INITS for each in width or TARGET_WIDTHS]
    found = [target_numbers(task, items) for task in with_progress(tasks, len(tasks), "targets")]
    if json:
        print_json({"items": items, "targets": [dataclasses.asdict(one) for one in found]})
        return
    title = f"Targets of circuit imitation, nats, over {items:,} random inputs"
    headings = ("init", "width", "entropy", "pairwise KL", "KL of uniform", "KL of the mean")
    print_table(Table(title, headings, list(map(row_of, found)), left=("init",)))
    # SOURCE: appendix D.2.2
    say_wrapped("The paper reports an entropy of 2.89 to 3.02 and a pairwise KL of 0.8 to 3.3, over its widths.")


def row_of(one: "TargetNumbers") -> tuple[str, ...]:
    numbers = (one.entropy, one.pairwise_kl, one.uniform, one.mean_output)
    return one.init, str(one.width), *(f"{value:.3f}" for value in numbers)
