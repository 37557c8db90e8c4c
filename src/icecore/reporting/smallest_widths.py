"""The smallest sufficient width as a result: a table, a figure, a page and JSON."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icecore.reporting.claim import seeds_in_words
from icecore.reporting.figures.smallest_widths import Mark, draw_accuracies, draw_over
from icecore.reporting.figures.widths import Point
from icecore.reporting.findings import in_html
from icecore.reporting.table import Table, escaped
from icecore.reporting.thresholds import Threshold
from icecore.store import write_json
from icecore.store.files import write_whole
from icecore.store.provenance import origin
from icecore.sweeps.halving import U_ONLY, Answer, Attempt, Found
from icecore.sweeps.width_search import FOLDER, RESULT, Question
from icecore.tasks.lazy import strongest_baseline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "result.html"
STYLE = (
    "body { font: 15px/1.5 system-ui, sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em } "
    "table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .2em .8em; border-bottom: 1px solid #ddd; "
    "text-align: right } .left { text-align: left } img { max-width: 100% } caption, footer { color: #555; "
    "text-align: left } footer { font-size: 13px }"
)


@dataclass(frozen=True)
class Result:
    """One question and what was found."""

    question: Question
    found: Found

    @property
    def baseline(self) -> tuple[str, float]:
        return strongest_baseline(self.question.task)

    def threshold(self, answer: Answer) -> Threshold:
        """Return the validation accuracies of every width, which decided."""
        accuracies = {
            attempt.width: dict(
                zip(attempt.trial.seeds, (100 * each for each in attempt.measured.validation), strict=True)
            )
            for attempt in answer.attempts
        }
        return Threshold(accuracies, answer.widths, 100 * self.question.plan.target)

    def width_in_words(self, answer: Answer) -> str:
        """Return "16 (8 to 16)", "> 256", or "not within this budget"."""
        if answer.state == "reached":
            return str(self.threshold(answer))
        if answer.state == "not reached":
            return f"> {answer.widths[-1]}"
        return "not within this budget"

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row per kind, for the unembedding alone, and for the baseline."""
        found = [self.row(answer.kind, answer.last, answer) for answer in self.found.answers.values()]
        name, value = self.baseline
        alone = self.found.unembedding
        unembedding = (U_ONLY, "not within this budget", *[""] * 5) if alone is None else self.row(U_ONLY, alone)
        return [*found, unembedding, (f"baseline: {name.replace('_', ' ')}", "", "", f"{100 * value:.1f}", "", "", "")]

    def row(self, kind: str, attempt: Attempt | None, answer: Answer | None = None) -> tuple[str, ...]:
        width = f"at {attempt.width}" if answer is None and attempt else ""
        bound = ""
        if answer is not None:
            width = self.width_in_words(answer)
            bound = "" if answer.lower_bound is None else f"> {answer.lower_bound}"
        if attempt is None:
            return (kind, width, bound, *[""] * 4)
        # Of a width that does not suffice, the accuracy is that of the widest.
        shown = in_percent(attempt.measured.test)
        at = f" at {attempt.width}" if answer is not None and answer.width is None else ""
        start = attempt.trial.start
        return (kind, width, bound, shown + at, f"{start.lr:g}", start.scale, f"{attempt.trial.steps:,}")

    def as_json(self) -> dict[str, Any]:
        name, value = self.baseline
        return {
            "task": self.question.words,
            "baseline": {"name": name, "accuracy": value},
            "kinds": {
                kind: {
                    "state": answer.state,
                    "width": answer.width,
                    "lower_bound": answer.lower_bound,
                    "of_seeds": {str(seed): width for seed, width in self.threshold(answer).by_seed.items()},
                    "widths": [asdict(attempt) for attempt in answer.attempts],
                }
                for kind, answer in self.found.answers.items()
            },
            "unembedding": None if self.found.unembedding is None else asdict(self.found.unembedding),
        }


@dataclass(frozen=True)
class SmallestWidths:
    """Results of `icecore threshold`: of one task, or of one at several difficulties."""

    results: Sequence[Result]
    setting: str | None = None  # in which the tasks differ
    values: tuple[str, ...] = ()  # of it, one per result

    @property
    def question(self) -> Question:
        return self.results[0].question

    @property
    def title(self) -> str:
        plan, task = self.question.plan, self.question.task.name
        return (
            f"{task}: smallest width with {100 * plan.target:g} % of answer tokens right, "
            f"median of {seeds_in_words(len(plan.seeds))}"
        )

    @property
    def is_whole(self) -> bool:
        return all(result.found.is_whole for result in self.results)

    @property
    def sentences(self) -> list[str]:
        """Return the answer in words, a sentence per result and kind."""
        found = []
        for index, result in enumerate(self.results):
            where = "" if self.setting is None else f"{self.setting} {self.values[index]}: "
            found += [where + in_a_sentence(answer) for answer in result.found.answers.values()]
        return found

    def table(self) -> Table:
        return self.table_over() if self.setting is not None else self.table_of_one()

    def table_of_one(self) -> Table:
        """Return the widths of one task beside the unembedding alone and the baseline."""
        (result,) = self.results
        headings = ("", "smallest width", "lower bound", "test accuracy, %", "rate", "initialization", "steps")
        return Table(
            self.title, headings, result.rows(), left=("", "initialization"), notes=self.notes, secondary=headings[4:]
        )

    def table_over(self) -> Table:
        """Return a row per difficulty."""
        kinds = list(self.results[0].found.answers)
        rows = []
        for value, result in zip(self.values, self.results, strict=True):
            alone = result.found.unembedding
            widths = [words_over(result, answer) for answer in result.found.answers.values()]
            shown = "" if alone is None else f"{in_percent(alone.measured.test)} at {alone.width}"
            rows.append((value, *widths, shown, f"{100 * result.baseline[1]:.1f}"))
        headings = (str(self.setting), *kinds, f"{U_ONLY}, %", "baseline, %")
        return Table(self.title, headings, rows, left=(str(self.setting),), notes=self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        steps = self.question.plan.steps
        return (
            f"Widths, rates and initializations are chosen on validation items, with at most {steps:,} steps of "
            f"{self.question.batch} items; accuracies are of test items. (a to b): the seeds' own widths.",
            "Lower bound: the widest width that missed the target with its best rate and initialization. Random: only "
            "the embeddings train. Normal: everything. U only: the unembedding alone, at Random's width and rate.",
            *([] if self.is_whole else ["The budget ended first: the same command continues with what is missing."]),
        )

    def plot(self) -> "Figure":
        """Draw accuracy against width, or the smallest width against the difficulty."""
        answers = "; ".join(self.sentences) if self.setting is None else self.question.task.name
        plan = self.question.plan
        if self.setting is None:
            title = f"{self.question.task.name}: {answers}"
            return draw_accuracies(self.points, 100 * plan.target, title)
        title = f"{answers}: smallest width with {100 * plan.target:g} % right"
        return draw_over(self.marks, self.setting, plan.widths, title)

    @property
    def points(self) -> list[Point]:
        """Return the test accuracies of every width that was searched to its end."""
        found = []
        for result in self.results:
            alone = result.found.unembedding
            attempts = [attempt for answer in result.found.answers.values() for attempt in answer.attempts]
            for attempt in [*attempts, *([] if alone is None else [alone])]:
                measured = sorted(zip((100 * each for each in attempt.measured.test), attempt.trial.seeds, strict=True))
                values, seeds = zip(*measured, strict=True)
                baseline = 100 * result.baseline[1]
                tried = tuple(sorted({each.width for each in attempts}))
                line, task = attempt.trial.kind, result.question.words
                found.append(Point(task, line, attempt.width, values, baseline, tried, seeds))
        return found

    @property
    def marks(self) -> list[Mark]:
        return [
            Mark(value, kind, answer.width, answer.lower_bound, tuple(result.threshold(answer).by_seed.values()))
            for value, result in zip(self.values, self.results, strict=True)
            for kind, answer in result.found.answers.items()
        ]

    def as_json(self) -> dict[str, Any]:
        plan = self.question.plan
        return {
            "target": plan.target,
            "widths": plan.widths,
            "seeds": plan.seeds,
            "steps": plan.steps,
            "batch": self.question.batch,
            "whole": self.is_whole,
            "over": self.setting,
            "results": [
                {**result.as_json(), **({} if self.setting is None else {"value": value})}
                for value, result in zip(self.values or ("",), self.results, strict=True)
            ],
        }

    def folder(self, out: Path) -> Path:
        suffix = "" if self.setting is None else f"-over-{self.setting}"
        return out / FOLDER / f"{self.question.task.name}-{self.question.id}{suffix}"

    def save(self, out: Path) -> Path:
        """Write the result as JSON and as a page, and return their folder."""
        folder = self.folder(out)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / RESULT, {**self.as_json(), **origin()})
        with write_whole(folder / PAGE) as stream:
            stream.write(self.page())
        return folder

    def page(self) -> str:
        """Return the result as one HTML page."""
        answers = "".join(f"<li>{escaped(sentence)}</li>" for sentence in self.sentences)
        figure = in_html(self.plot()) if self.points else ""
        made = ", ".join(f"{key} {value}" for key, value in origin().items())
        head = f'<meta charset="utf-8"><title>{escaped(self.title)}</title><style>{STYLE}</style>'
        body = f"<h1>{escaped(self.title)}</h1><ul>{answers}</ul>{figure}{self.table().html()}"
        foot = f"<footer>{escaped(made)}</footer>"
        return f"<!doctype html><html lang=en><head>{head}</head><body>{body}{foot}</body></html>"

    def __repr__(self) -> str:
        return f"SmallestWidths({'; '.join(self.sentences)})"

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        return self.table()._repr_html_() + (in_html(self.plot()) if self.points else "")


def in_a_sentence(answer: Answer) -> str:
    if answer.width is not None:
        return f"{answer.kind} needs width {answer.width}"
    if answer.state == "not reached":
        return f"{answer.kind} needs more than width {answer.widths[-1]}"
    bound = "" if answer.lower_bound is None else f", more than {answer.lower_bound}"
    return f"{answer.kind}: not within this budget{bound}"


def words_over(result: Result, answer: Answer) -> str:
    """Return a width, or what is known instead, for one cell of a table."""
    is_bounded = answer.state == "not within this budget" and answer.lower_bound is not None
    return result.width_in_words(answer) + (f" (> {answer.lower_bound})" if is_bounded else "")


def in_percent(values: Sequence[float]) -> str:
    least, most = f"{100 * min(values):.1f}", f"{100 * max(values):.1f}"
    spread = "" if least == most else f" ({least} to {most})"
    return f"{100 * statistics.median(values):.1f}{spread}"
