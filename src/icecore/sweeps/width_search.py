"""Trials of a search for the smallest sufficient width: trained without validation items, measured, recorded."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icecore.errors import InputError, choices_of, require
from icecore.models import Model, is_shipped
from icecore.store import read_json, write_json
from icecore.store.provenance import origin
from icecore.sweeps.budget import Budget
from icecore.sweeps.cells import Cell
from icecore.sweeps.comparison import line_name, precision_of
from icecore.sweeps.halving import NORMAL, RANDOM, Found, Measure, Measured, Plan, Start, Trial, search
from icecore.sweeps.names import TRAINABLE_OF, CellName
from icecore.sweeps.runner import failing_alone
from icecore.tasks import Task
from icecore.tasks.lazy import strongest_baseline
from icecore.training import ProgressCallback, evaluate, pick_device, require_sound, train
from icecore.training.evaluation import device_name

FOLDER, TRIALS, RESULT = "threshold", "trials", "result.json"  # OUT/threshold/trials, OUT/threshold/TASK-ID/result.json
WIDTHS = {"cpu": (4, 8, 16, 32, 64, 128, 256), "cuda": (4, 8, 16, 32, 64, 128, 256, 512, 1024)}
STEPS, BATCH = 800, 128
WARMUP_SHARE = 20  # one in this many steps warms up, as in the scripts
# As on the laptop's ladder: small batches and few steps need higher rates than the paper's.
RATES = {RANDOM: (1e-2, 3e-2), NORMAL: (3e-3, 1e-2)}
INITS = {RANDOM: ("matched",), NORMAL: ("released", "matched")}
GAINS = {RANDOM: (1.0, 2.0), NORMAL: (1.0,)}
ReportOf = Callable[[Trial], ProgressCallback | None]


@dataclass(frozen=True)
class Question:
    """A task, a body whose width is varied, a plan, and settings of training."""

    task: Task
    body: Model
    plan: Plan
    batch: int = BATCH
    preset: str = "released"
    device: str = "auto"
    precision: str = "auto"
    more: Mapping[str, Any] = field(default_factory=dict)  # of training
    force: bool = False  # train whatever memory is free

    def __post_init__(self) -> None:
        require(
            type(self.task).loss_baselines is Task.loss_baselines,
            f"{self.task.name} is judged by its loss, and this looks for an accuracy: icecore reproduce --list has its "
            "figure",
        )
        name, baseline = strongest_baseline(self.task)
        require(
            baseline < self.plan.target <= 1,
            f"--target must be above the baseline and at most 1, got {self.plan.target:g}: on {self.words} the rule "
            f"'{name.replace('_', ' ')}' gets {baseline:.3f} without learning",
        )

    def require_sound(self) -> None:
        """Raise if any width or start is impossible, before the first run."""
        plan = self.plan
        for kind, starts in plan.starts.items():
            cells = [self.cell(Trial(kind, w, each, plan.steps, plan.seeds)) for w in plan.widths for each in starts]
            require_sound(cells[-1].of_one_seed)

    @property
    def words(self) -> str:
        """Return the task with its difficulty, if it has one."""
        setting = self.task.difficulty_setting
        return self.task.name if setting is None else f"{self.task.name}, {setting} {self.task.difficulty}"

    def cell(self, trial: Trial) -> Cell:
        body = body_at(self.body, trial.width, trial.start)
        training = {"steps": trial.steps, "batch": self.batch, "lr": trial.start.lr}
        training["warmup_steps"] = trial.steps // WARMUP_SHARE
        name = CellName(self.task.name, line_name("transformer", TRAINABLE_OF[trial.kind]), trial.width)
        return Cell(name, self.task, body, TRAINABLE_OF[trial.kind], self.preset, {**training, **self.more})

    def precision_of(self, trial: Trial) -> str:
        return precision_of(self.cell(trial), self.device, self.precision)

    def key(self, trial: Trial) -> str:
        """Return the id of a trial: its run's setting, precision and seeds."""
        named = f"{self.cell(trial).setting} {self.precision_of(trial)} {list(trial.seeds)}"
        return hashlib.sha256(named.encode()).hexdigest()[:12]

    @property
    def id(self) -> str:
        """Return the id of the question: any change of what is asked gives another one."""
        plan = self.plan
        starts = {kind: [dataclasses.astuple(start) for start in each] for kind, each in plan.starts.items()}
        first = Trial(RANDOM, plan.widths[0], Start(1e-3), plan.steps, plan.seeds)
        asked = [self.key(first), plan.target, plan.widths, starts]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]


def body_at(body: Model, width: int, start: Start) -> Model:
    """Return the body with another width and start."""
    given = {name: value for name, value in (("init", start.init), ("gain", start.gain)) if value is not None}
    made: Any = body
    return dataclasses.replace(made, width=width, **given)


def starts_of(
    body: Model, rates: Sequence[float] = (), gains: Sequence[float] = (), init: str | None = None
) -> dict[str, tuple[Start, ...]]:
    """Return the starts to choose from, by kind; rates, gains and initialization default to those of each kind.

    A user's body, and one without these settings, keeps its own initialization.
    """
    is_ours = is_shipped(body)
    known = choices_of(type(body)).get("init", ()) if is_ours else ()
    has_gain = is_ours and hasattr(body, "gain")
    require(has_gain or not gains, f"{body.name} has no gain that can be varied: drop --gains")
    require(init is None or bool(known), f"{body.name} has no init: drop --init")
    found = {}
    for kind in (RANDOM, NORMAL):
        inits = [init] if init is not None else [each for each in INITS[kind] if each in known] or [None]
        factors = (gains or GAINS[kind]) if has_gain else [None]
        found[kind] = tuple(
            Start(rate, each, gain) for gain in factors for each in inits for rate in rates or RATES[kind]
        )
    return found


def stored(path: Path) -> Measured:
    """Return a recorded trial."""
    kept = read_json(path)
    parts = [kept.get("validation"), kept.get("test")]
    is_right = all(
        isinstance(part, list) and bool(part) and all(isinstance(each, float) for each in part) for part in parts
    )
    require(is_right, f"{path} is damaged: delete it, and the same command measures it again")
    validation, test = parts
    return Measured(tuple(validation), tuple(test))


def run_trial(question: Question, trial: Trial, path: Path, watch: ProgressCallback | None) -> Measured:
    """Train one trial and record it at `path`. A rate that diverges has accuracy 0."""
    cell, precision = question.cell(trial), question.precision_of(trial)
    try:
        with failing_alone(cell.model):
            run = train(
                question.task.without_validation(),
                cell.model,
                cell.trainable,
                trial.seeds,
                preset=question.preset,
                device=question.device,
                precision=precision,
                on_progress=watch,
                evaluate_every=trial.steps,  # only at the end: on the way it would cost time and decide nothing
                force=question.force,
                **cell.training,
            )
        where = run.population.device
        validation = evaluate(run.population, question.task, question.task.validation_set().to(where))["accuracy"]
        test = evaluate(run.population, question.task, question.task.test_set().to(where))["accuracy"]
    except InputError as error:
        if "not finite" not in str(error):
            raise
        validation = test = [0.0] * len(trial.seeds)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        path,
        {
            "trial": dataclasses.asdict(trial),
            "validation": validation,
            "test": test,
            "config": cell.config(trial.seeds, precision).as_json(),
            "device": device_name(pick_device(question.device)),
            **origin(),
        },
    )
    return Measured(tuple(validation), tuple(test))


@dataclass
class Trials:
    """Recorded trials of a question under a folder. What is recorded is not repeated."""

    question: Question
    folder: Path
    budget: Budget
    report_of: ReportOf = lambda _: None
    on_done: Callable[[Trial, Measured], None] = lambda *_: None
    trained: int = 0  # trials that this process trained
    known: int = 0  # trials that were recorded before

    def path(self, trial: Trial) -> Path:
        return self.folder / FOLDER / TRIALS / f"{self.question.key(trial)}.json"

    def measure(self, trials: Sequence[Trial]) -> Generator[Measured, None, None]:
        """Yield each trial's accuracies, recorded or trained."""
        for trial in trials:
            path = self.path(trial)
            if path.exists():
                self.known += 1
                yield stored(path)
                continue
            watch = self.budget.watch(trial, self.report_of(trial))
            measured = run_trial(self.question, trial, path, watch)
            self.trained += 1
            self.on_done(trial, measured)
            yield measured


def search_all(
    questions: Sequence[Question], budget: Budget, measure_of: Callable[[Question, Budget], Measure]
) -> list[Found]:
    """Answer every question. Each gets its share of what is left; what is left at the end goes to the unfinished."""
    found: list[Found] = []
    for index, question in enumerate(questions):
        found.append(search(question.plan, measure_of(question, budget.part(len(questions) - index))))
    if len(questions) > 1:
        for index, question in enumerate(questions):
            if not found[index].is_whole and budget.left > 0:
                found[index] = search(question.plan, measure_of(question, budget))
    return found
