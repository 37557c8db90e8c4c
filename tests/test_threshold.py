"""The smallest sufficient width: the search with a made-up trainer and clock, and with real runs."""

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import GRU, Transformer
from icecore.reporting.figures.smallest_widths import Mark, draw_over
from icecore.reporting.smallest_widths import Result, SmallestWidths
from icecore.reporting.threshold import find_widths, parse_over, plan_of
from icecore.store import read_json
from icecore.sweeps.budget import Budget, parse_budget
from icecore.sweeps.halving import Found, Measured, OutOfBudget, Plan, Start, Trial, search
from icecore.sweeps.width_search import Question, Trials, starts_of
from icecore.tasks import Needle, make_task
from icecore.training import Progress

EXAMPLES = Path(__file__).parents[1] / "examples"
REVERSAL = f"{EXAMPLES / 'reversal.py'}:Reversal"
GOOD, BAD = Start(1e-2), Start(1e-1)
SEEDS = (0, 1, 2)


def plan(**changed: Any) -> Plan:
    starts = {"Random": (BAD, GOOD), "Normal": (GOOD, BAD)}
    return replace(Plan(0.99, (4, 8, 16, 32), starts, 800, SEEDS), **changed)


@dataclass
class MadeUp:
    """A trainer: a kind suffices from its own width on, with the good start and enough steps."""

    enough: dict[str, int]
    steps: int = 1
    budget: float = math.inf  # trials that fit
    seeds_missing: tuple[int, ...] = ()  # seeds that never reach the target
    asked: list[Trial] = field(default_factory=list)

    def accuracy(self, trial: Trial, seed: int) -> float:
        suffices = trial.width >= self.enough.get(trial.kind, 1_000) and trial.steps >= self.steps
        return 0.995 if suffices and trial.start == GOOD and seed not in self.seeds_missing else 0.4 + trial.steps / 4e3

    def measure(self, trials):
        for trial in trials:
            if len(self.asked) >= self.budget:
                raise OutOfBudget(trial, 12.0)
            self.asked.append(trial)
            validation = tuple(self.accuracy(trial, seed) for seed in trial.seeds)
            yield Measured(validation, tuple(value - 0.1 for value in validation))


def test_planted_widths_are_found_from_validation_accuracies():
    """Test accuracies, made a tenth lower here, would never reach the target."""
    trainer = MadeUp({"Random": 16, "Normal": 8})
    found = search(plan(), trainer.measure)
    assert {kind: answer.width for kind, answer in found.answers.items()} == {"Random": 16, "Normal": 8}
    assert {kind: answer.lower_bound for kind, answer in found.answers.items()} == {"Random": 8, "Normal": 4}
    assert all(answer.state == "reached" for answer in found.answers.values())
    assert found.is_whole
    assert found.unembedding is not None
    assert (found.unembedding.trial.width, found.unembedding.trial.start) == (16, GOOD)
    assert not any(trial.width > 16 for trial in trainer.asked), "nothing wider than needed is trained"
    assert not any(trial.kind == "Normal" and trial.width > 8 for trial in trainer.asked)


def test_starts_are_halved_and_the_best_trains_with_all_seeds():
    trainer = MadeUp({}, steps=1)
    starts = tuple(Start(rate) for rate in (1e-3, 2e-3, 3e-3, 4e-3))
    quality = {start: rank for rank, start in enumerate((starts[2], starts[0], starts[3], starts[1]))}

    def accuracy(trial: Trial, seed: int) -> float:
        assert seed == 0 or trial.steps == 800
        return 0.5 - 0.1 * quality[trial.start]

    trainer.accuracy = accuracy
    search(plan(starts={"Normal": starts}, widths=(4,)), trainer.measure)
    by_steps = {steps: [trial for trial in trainer.asked if trial.steps == steps] for steps in (200, 400, 800)}
    assert [trial.start for trial in by_steps[200]] == [*starts]
    assert [trial.start for trial in by_steps[400]] == [starts[2], starts[0]]
    assert [trial.start for trial in by_steps[800]] == [starts[2]]
    assert {len(trial.seeds) for trial in (*by_steps[200], *by_steps[400])} == {1}
    assert by_steps[800][0].seeds == SEEDS


def test_the_first_run_that_suffices_ends_the_search_of_a_width():
    early = MadeUp({"Normal": 4})
    search(plan(starts={"Normal": (GOOD, BAD)}), early.measure)
    assert [(trial.start, trial.steps, len(trial.seeds)) for trial in early.asked] == [(GOOD, 200, 1), (GOOD, 200, 3)]
    late = MadeUp({"Normal": 4}, steps=800)
    found = search(plan(starts={"Normal": (GOOD,)}), late.measure).answers["Normal"]
    assert found.width == 4
    assert found.last is not None
    assert found.last.trial.steps == 800


def test_one_lucky_seed_is_not_enough():
    """Seed 0, with which starts are chosen, reaches the target; two of three do not."""
    trainer = MadeUp({"Normal": 4}, seeds_missing=(1, 2))
    answer = search(plan(starts={"Normal": (GOOD, BAD)}, widths=(4, 8)), trainer.measure).answers["Normal"]
    assert (answer.state, answer.width, answer.lower_bound) == ("not reached", None, 8)


def test_what_no_width_reaches_is_not_reached_and_what_time_cuts_off_is_not_guessed():
    whole = search(plan(), MadeUp({"Normal": 4}).measure)
    assert (whole.answers["Random"].state, whole.answers["Random"].lower_bound) == ("not reached", 32)
    assert whole.unembedding is not None
    assert whole.unembedding.width == 32
    per_width = 4  # two starts, the better one again, and all seeds
    cut = search(plan(starts={"Random": (BAD, GOOD)}), MadeUp({"Random": 16}, budget=2 * per_width + 1).measure)
    assert (cut.answers["Random"].state, cut.answers["Random"].lower_bound) == ("not within this budget", 8)
    assert cut.unembedding is None
    assert not cut.is_whole


def test_a_kind_that_does_not_fit_leaves_time_to_the_other():
    trainer = MadeUp({"Normal": 8})

    def measure(trials):
        if trials[0].kind == "Random":
            raise OutOfBudget(trials[0])
        yield from trainer.measure(trials)

    found = search(plan(), measure)
    assert found.answers["Random"].state == "not within this budget"
    assert found.answers["Random"].lower_bound is None
    assert found.answers["Normal"].width == 8


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


TRIAL = Trial("Random", 8, GOOD, 100, (0,))


def steps_taken(budget: Budget, clock: Clock, seconds_per_step: float) -> int:
    """Train TRIAL at this pace; return the step at which the budget stopped it, or its last step."""
    watch = budget.watch(TRIAL)
    for step in range(1, TRIAL.steps + 1):
        clock.now += seconds_per_step
        try:
            watch(Progress(step, TRIAL.steps, [1.0]))
        except OutOfBudget:
            return step
    return TRIAL.steps


def test_a_run_that_will_not_be_ready_is_stopped_once_its_pace_is_known():
    clock = Clock()
    assert steps_taken(Budget(1_000, clock), clock, 9.0) == 100, "900 of 990 seconds"
    assert steps_taken(Budget(1_000, clock), clock, 11.0) == 6, "a twentieth after the first step"
    budget = Budget(1_000, clock)
    clock.now += 991
    with pytest.raises(OutOfBudget):
        budget.watch(TRIAL)


def test_parts_of_a_budget_share_what_is_left():
    clock = Clock()
    budget = Budget(100, clock)  # of which 5 are kept for the result
    assert budget.part(5).left == pytest.approx(19)
    clock.now += 45
    assert budget.part(2).left == pytest.approx(25)
    assert (budget.spent, budget.left) == (45, 50)
    clock.now += 90
    assert budget.part(2).left == 0


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5_400)])
def test_budgets_are_read(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["10", "m", "0m", "-1m", "10 m in", "1e3s", ""])
def test_other_budgets_are_refused(text):
    with pytest.raises(InputError, match="--budget"):
        parse_budget(text)


def test_starts_fit_the_body():
    of_transformer = starts_of(Transformer(width=8))
    assert {start.init for start in of_transformer["Random"]} == {"matched"}
    assert {start.gain for start in of_transformer["Random"]} == {1.0, 2.0}
    assert {start.init for start in of_transformer["Normal"]} == {"released", "matched"}
    given = starts_of(Transformer(width=8), rates=[1e-3], gains=[3.0], init="paper")
    assert given["Random"] == given["Normal"] == (Start(1e-3, "paper", 3.0),)
    assert {start.gain for start in starts_of(GRU(width=8))["Random"]} == {None}
    with pytest.raises(InputError, match="gru has no gain that can be varied"):
        starts_of(GRU(width=8), gains=[2.0])


TINY = Needle(max_pairs=2, values=9, vocabulary=40, test_size=20)


def widths_of(found: Found, plan: Plan, **setting: object) -> SmallestWidths:
    return SmallestWidths([Result(Question(TINY, Transformer(width=8), plan), found)], **setting)  # type: ignore


def test_the_result_in_words_table_and_json():
    asked = plan(target=0.99)
    found = widths_of(search(asked, MadeUp({"Random": 16}, seeds_missing=(2,)).measure), asked)
    rows = {row[0]: row for row in found.table().rows}
    assert rows["Random"][1:4] == ("16 (16 to > 16)", "> 8", "89.5 (35.0 to 89.5)"), "at 200 steps"
    assert rows["Normal"][1] == "> 32"
    assert rows["U only"][1] == "at 16"
    assert any(name.startswith("baseline: ") for name in rows)
    assert found.sentences == ["Random needs width 16", "Normal needs more than width 32"]
    kinds = found.as_json()["results"][0]["kinds"]
    assert (kinds["Random"]["width"], kinds["Random"]["of_seeds"]) == (16, {"0": 16, "1": 16, "2": None})
    assert "Random needs width 16" in found.page()
    assert "data:image/png;base64," in found.page()
    cut = widths_of(search(asked, MadeUp({}, budget=5).measure), asked)
    assert cut.sentences[0] == "Random: not within this budget, more than 4"
    assert cut.sentences[1] == "Normal: not within this budget"
    assert any("the same command continues" in note for note in cut.table().notes)


class AtDifficulty(Trials):
    """Trials of one question, whose widths are twice its number of pairs; no time at all is spent."""

    def measure(self, trials):
        yield from MadeUp(dict.fromkeys(("Random", "Normal"), 2 * self.question.task.max_pairs)).measure(trials)  # type: ignore


def test_difficulty_against_width(tmp_path):
    asked = plan()
    tasks = [replace(TINY, max_pairs=pairs) for pairs in (2, 4, 8)]
    questions = [Question(task, Transformer(width=8), asked) for task in tasks]
    results = find_widths(questions, Budget(60), tmp_path, make=AtDifficulty)
    found = SmallestWidths(results, "max_pairs", ("2", "4", "8"))
    assert [row[:3] for row in found.table().rows] == [("2", "4", "4"), ("4", "8", "8"), ("8", "16", "16")]
    panel = found.plot().axes[0]
    lines = {line.get_label(): [*np.asarray(line.get_ydata())] for line in panel.lines}
    assert lines["Random"] == lines["Normal"] == [4, 8, 16]
    assert not any("hollow" in str(label) for label in lines), "every width is known"


def test_a_difficulty_whose_width_is_not_known_has_a_hollow_marker():
    marks = [
        Mark("2", "Random", 8, 4, (8, 8)),
        Mark("3", "Random", None, 16, (None, 32)),
        Mark("4", "Random", None, None, ()),
    ]
    panel = draw_over(marks, "length", (4, 8, 16, 32), "title").axes[0]
    places = {
        (line.get_markerfacecolor(), *np.asarray(line.get_ydata())) for line in panel.lines if line.get_marker() == "o"
    }
    assert ("white", 16) in places
    known = next(np.asarray(line.get_ydata()) for line in panel.lines if line.get_label() == "Random")
    assert known[0] == 8
    assert np.isnan(known[1:]).all()


def test_over_names_a_setting():
    task = make_task("parity")
    assert parse_over(task, "difficulty") == ("length", [*task.difficulties])
    assert parse_over(task, "length=4,8") == ("length", ["4", "8"])
    assert parse_over(task, None) == (None, [])
    for wrong, message in (("hops=1", "unknown setting of parity 'hops'"), ("test-size", "needs values")):
        with pytest.raises(InputError, match=message):
            parse_over(task, wrong)
    with pytest.raises(InputError, match="reversal names no difficulty_setting"):
        parse_over(make_task(REVERSAL), "difficulty")


def test_only_possible_widths_are_tried_by_default():
    with_heads = plan_of(Transformer(width=64, heads=16), 0.99, None, SEEDS, 800, device="cpu")
    assert with_heads.widths[0] == 16
    with pytest.raises(InputError, match="heads"):
        Question(TINY, Transformer(width=64, heads=16), replace(with_heads, widths=(8,))).require_sound()


SMALL = ["--steps", "8", "--batch", "8", "--seeds", "2", "--device", "cpu"]
SMALL += ["--lr", "1e-2", "--gains", "1", "--init", "matched"]


def answer(capsys, *flags: str) -> dict:
    assert main(["threshold", REVERSAL, *SMALL, *flags, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_command_answers_and_does_not_repeat_what_is_recorded(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first = answer(capsys, "--widths", "8,4", "--figure", "a.png")
    (result,) = first["results"]
    assert first["whole"]
    assert first["widths"] == [4, 8]
    for kind in ("Random", "Normal"):
        assert result["kinds"][kind]["state"] == "not reached", "eight steps teach nothing"
        assert result["kinds"][kind]["lower_bound"] == 8
        assert [len(each["measured"]["test"]) for each in result["kinds"][kind]["widths"]] == [2, 2]
    assert result["unembedding"]["trial"]["width"] == 8
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert read_json(Path(first["folder"]) / "result.json")["results"] == first["results"]
    assert "Random needs more than width 8" in (Path(first["folder"]) / "result.html").read_text()
    monkeypatch.setattr("icecore.sweeps.width_search.train", lambda *_, **__: pytest.fail("trained again"))
    assert answer(capsys, "--widths", "4,8", "--figure", "a.png")["results"] == first["results"]
    assert main(["threshold", REVERSAL, *SMALL, "--widths", "4,8"]) == 0
    shown = capsys.readouterr().out
    assert "Normal needs more than width 8" in shown
    assert "lower bound" in shown


def test_a_killed_search_continues_where_it_was(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    from icecore.sweeps import width_search

    real, trained = width_search.train, []

    def train(*arguments, **settings):
        if len(trained) == 4:
            raise KeyboardInterrupt
        trained.append(settings)
        return real(*arguments, **settings)

    monkeypatch.setattr(width_search, "train", train)
    flags = ["threshold", REVERSAL, *SMALL, "--widths", "4"]
    assert main(flags) == 130
    assert len(list(Path("runs/threshold/trials").glob("*.json"))) == 4
    monkeypatch.setattr(width_search, "train", real)
    whole = answer(capsys, "--widths", "4")
    assert whole["whole"]
    kept = {path: path.stat().st_mtime_ns for path in Path("runs/threshold/trials").glob("*.json")}
    assert len(kept) == 7, "two rungs and all seeds for each kind, and the unembedding alone"
    assert answer(capsys, "--widths", "4", "--out", "other")["results"] == whole["results"]


def test_training_lacks_validation_items_and_they_decide(tmp_path, monkeypatch, capsys):
    """Every training item of seven is fed; none is a validation or a test item."""
    monkeypatch.chdir(tmp_path)
    from icecore.sweeps import width_search

    real, tasks = width_search.train, []
    monkeypatch.setattr(
        width_search, "train", lambda task, *rest, **more: tasks.append(task) or real(task, *rest, **more)
    )
    command = ["threshold", "modular-addition", "--modulus", "7", "--widths", "4", "--steps", "4", "--batch", "4"]
    assert main([*command, "--seeds", "1", "--lr", "1e-2", "--device", "cpu", "--json"]) == 0
    capsys.readouterr()
    whole = make_task("modular-addition", settings={"modulus": 7})
    held = {item.prompt for item in (*whole.items(whole.validation_set()), *whole.test_items())}
    assert tasks
    for task in tasks:
        assert not held & {item.prompt for item in task.items(task.train_set())}


def test_difficulties_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = answer(capsys, "--widths", "4", "--over", "length=5,6", "--figure", "over.png")
    assert [each["value"] for each in found["results"]] == ["5", "6"]
    assert found["over"] == "length"
    assert Path("over.png").stat().st_size > 1_000


def test_in_python_with_a_body_of_ones_own_size(tmp_path):
    task = make_task(REVERSAL)
    found = ice.threshold(
        task, GRU(width=8), widths=[4], steps=4, batch=8, seeds=1, rates=[1e-2], out=tmp_path, device="cpu"
    )
    assert repr(found) == "SmallestWidths(Random needs more than width 4; Normal needs more than width 4)"
    assert "<table>" in found._repr_html_()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--target", "1.01"], "--target must be above the baseline and at most 1, got 1.01"),
        (["--target", "0.2"], "on reversal the rule 'most frequent in context' gets 0.278 without learning"),
        (["--target", "nan"], "--target must be above the baseline"),
        (["--budget", "soon"], "--budget takes a number and a unit"),
        (["--budget", "0.001s"], "a budget of 0.001 s is too short for one run (Random 4, rate 0.01, matched, 2 steps"),
        (["--widths", "6"], "width"),
        (["--steps", "0"], "steps must be at least 1"),
        (["--batch", "0"], "batch must be at least 1"),
        (["--lr", "fast"], "--lr must be a number"),
        (["--gains", "big"], "--gains must be numbers"),
        (["--over", "difficulty"], "reversal names no difficulty_setting"),
        (["--over", "length=6,0"], "letters and length must be at least 1"),
        (["--over", "letters=8,1"], "too few different items to train on"),
        (["--model", "gru", "--gains", "2"], "gru has no gain"),
        (["--figure", "a.doc"], "cannot draw a.doc"),
    ],
)
def test_bad_input_is_one_line(flags, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = SMALL[:-4] if "--model" in flags else SMALL
    assert main(["threshold", REVERSAL, *small, *([] if "--widths" in flags else ["--widths", "4"]), *flags]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_tasks_judged_by_loss_are_refused(capsys):
    assert main(["threshold", "imitation", "--device", "cpu"]) == 2
    assert "is judged by its loss" in capsys.readouterr().err


def test_a_damaged_record_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    answer(capsys, "--widths", "4")
    for path in Path("runs/threshold/trials").glob("*.json"):
        path.write_text('{"validation": [], "test": [1.0]}')
    assert main(["threshold", REVERSAL, *SMALL, "--widths", "4"]) == 2
    assert "is damaged: delete it" in capsys.readouterr().err
