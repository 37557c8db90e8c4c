"""`icecore threshold`: the smallest width at which a frozen and a trained body reach a target, within a budget."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.bodies import find_body, make_body
from icecore.cli.compare import parse_widths
from icecore.cli.figures import files_at
from icecore.cli.options import (
    ADDRESS,
    DEVICE,
    EXECUTOR,
    FORCE,
    GPUS,
    HEADS,
    INIT,
    LAYERS,
    MODEL_PANEL,
    OUTPUT_PANEL,
    PRECISION,
    RUN_PANEL,
    TASK,
    TASK_PRESET,
    TRAINING_PANEL,
    Executor,
)
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
    say_wrapped,
)
from icecore.cli.progress import PLAIN_SECONDS, described_bar, duration, progress_in_words
from icecore.cli.settings import checked_task, settings_given
from icecore.cli.sweeps import parse_rates
from icecore.cli.train import parse_seeds
from icecore.errors import InputError, printable_line

if TYPE_CHECKING:
    from icecore.sweeps.budget import Budget
    from icecore.sweeps.halving import Measured, Trial
    from icecore.training import Progress, ProgressCallback


def command(
    context: typer.Context,
    task: str = TASK,
    preset: str = TASK_PRESET,
    target: float = typer.Option(0.99, help="Accuracy that suffices: above the baseline, at most 1."),
    budget: str = typer.Option("10m", help="Time for the answer: 90s, 10m or 2h."),
    over: str | None = typer.Option(
        None, help="Answer at several difficulties: difficulty, or a setting of the task, such as length=4,8,16."
    ),
    model: str = typer.Option(
        "transformer",
        help="transformer, linearized, lstm, gru, llama, mamba, linear-attention, deltanet, FILE.py:CLASS.",
        rich_help_panel=MODEL_PANEL,
    ),
    widths: str | None = typer.Option(
        None, help="Widths to try. Default: 4,8,16,... up to 256; on a GPU to 1024.", rich_help_panel=MODEL_PANEL
    ),
    layers: int | None = LAYERS,
    heads: int | None = HEADS,
    init: str | None = INIT,
    gains: str | None = typer.Option(
        None,
        help="Gains of the initial body to choose from. Default: 1,2 for Random, 1 for Normal.",
        rich_help_panel=MODEL_PANEL,
    ),
    lr: str | None = typer.Option(
        None,
        help="Learning rates to choose from. Default: 1e-2,3e-2 for Random, 3e-3,1e-2 for Normal.",
        rich_help_panel=TRAINING_PANEL,
    ),
    steps: int | None = typer.Option(None, help="Most steps of a run. Default: 800.", rich_help_panel=TRAINING_PANEL),
    batch: int | None = typer.Option(None, help="Items per step. Default: 128.", rich_help_panel=TRAINING_PANEL),
    seeds: str = typer.Option(
        "3", help="Seeds whose median decides: how many (10), or which (0,3,7).", rich_help_panel=RUN_PANEL
    ),
    device: str = DEVICE,
    force: bool = FORCE,
    precision: str = PRECISION,
    executor: Executor = EXECUTOR,
    address: str | None = ADDRESS,
    gpus: float = GPUS,
    out: Path = typer.Option(
        Path("runs"),
        help="Runs and results are recorded in OUT/threshold; recorded runs are not repeated.",
        rich_help_panel=RUN_PANEL,
    ),
    figure: Path | None = typer.Option(
        None,
        help="Draw accuracy against width (with --over: difficulty against width): FILE.png, FILE.pdf, or a folder.",
        rich_help_panel=OUTPUT_PANEL,
    ),
    json: bool = JSON_OPTION,
    markdown: bool = MARKDOWN,
    csv: bool = CSV,
) -> None:
    """Find the smallest width that solves a task.

    [bold]Examples[/bold]

    icecore threshold my_task.py:MyTask --budget 10m
    icecore threshold parity --over difficulty --budget 1h --figure parity.png
    icecore threshold k-hop --hops 1 --target .95 --widths 16,32,64

    There is one answer for a frozen random body (Random) and one for a trained one (Normal), beside the unembedding
    alone and the baseline. A width suffices if the median of the seeds reaches the target on validation items. Widths
    are tried from the narrowest. At each, every rate and initialization trains for a quarter of the steps, the better
    half for a half, the best for all of them; the first that suffices ends the search. What is not known when the
    budget ends is "not within this budget", and the same command continues.
    """
    from icecore.drawing import require_drawable, write
    from icecore.reporting.smallest_widths import PAGE, SmallestWidths
    from icecore.reporting.threshold import find_widths, plan_of, questions_over
    from icecore.store.files import require_writable
    from icecore.sweeps.budget import Budget, parse_budget
    from icecore.sweeps.cluster_choices import trials_on_ray
    from icecore.sweeps.width_search import BATCH, FOLDER, STEPS, Trials

    allowed = Budget(parse_budget(budget))
    body_class = find_body(model)
    of_task, of_model = settings_given(context, task, body_class)
    made = checked_task(task, preset, of_task)
    of_any = {"layers": layers, "heads": heads}
    chosen = [width for width in parse_widths(widths) if width is not None] or None
    first = {"width": chosen[0] if chosen else WIDTH_OF_CHECK}
    body = make_body(made, preset, model, body_class, first | of_any | of_model)
    plan = plan_of(
        body,
        target,
        chosen,
        parse_seeds(seeds),
        STEPS if steps is None else steps,
        parse_rates(lr),
        parse_gains(gains),
        init,
        device,
    )
    setting, values, questions = questions_over(
        made,
        body,
        plan,
        over,
        batch=BATCH if batch is None else batch,
        preset=preset,
        device=device,
        precision=precision,
        force=force,
    )
    files = [] if figure is None else files_at(figure, made.name)
    require_drawable(files)
    require_writable(out / FOLDER / PAGE)
    with budget_progress(allowed) as (report_of, on_done):
        make = Trials if executor is Executor.local else trials_on_ray(questions, address, gpus)
        results = find_widths(questions, allowed, out, report_of, on_done, make)
    found = SmallestWidths(results, setting, values)
    folder = found.save(out)
    if files and found.points:
        write(found.plot(), files)
    shown = [*map(str, files)] if found.points else []
    if json:
        print_json({**found.as_json(), "seconds": round(allowed.spent, 1), "folder": str(folder), "files": shown})
        return
    chosen_format = format_of(markdown, csv)
    print_table(found.table(), chosen_format)
    if chosen_format is not Format.terminal:
        return
    say("\n" + "\n".join(found.sentences))
    say_wrapped(f"{duration(allowed.spent)} of {duration(allowed.seconds)}; as a page: {folder / PAGE}")
    say_aside("".join(f"drawn in {file}\n" for file in shown), end="")


WIDTH_OF_CHECK = 64  # a body of any width, to read its settings


def parse_gains(text: str | None) -> list[float]:
    """Read `1,2`."""
    try:
        return list(dict.fromkeys(float(part) for part in (text or "").split(",") if part.strip()))
    except ValueError:
        raise InputError(f"--gains must be numbers with commas, such as 1,2, got '{text}'") from None


@contextlib.contextmanager
def budget_progress(
    budget: "Budget",
) -> "Iterator[tuple[Callable[[Trial], ProgressCallback], Callable[[Trial, Measured], None]]]":
    """Yield callbacks that show the trial under way, every finished one, and how much of the budget is spent."""
    with described_bar() as bar:
        row = bar.add_task("", total=budget.seconds)
        last = budget.clock()

        def line(words: str) -> str:
            return printable_line(f"[{min(1.0, budget.spent / budget.seconds):4.0%} of the budget] {words}")

        def report_of(trial: "Trial") -> "ProgressCallback":
            bar.update(row, completed=budget.spent, description=str(trial))

            def on_progress(progress: "Progress") -> None:
                nonlocal last
                words = f"{trial}: step {progress.step:,}, {progress_in_words(progress)}"
                bar.update(row, completed=budget.spent, description=words)
                if bar.disable and budget.clock() - last >= PLAIN_SECONDS:
                    last = budget.clock()
                    say_aside(line(words), flush=True)

            return on_progress

        def on_done(trial: "Trial", measured: "Measured") -> None:
            nonlocal last
            last = budget.clock()
            values = " ".join(f"{value:.4f}" for value in measured.validation)
            words = line(f"{trial}: validation accuracy {values}")
            if bar.disable:
                say_aside(words, flush=True)
            else:
                bar.console.print(words, markup=False, highlight=False)

        yield report_of, on_done
