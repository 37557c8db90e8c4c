"""Halfway ranks from made-up curves, and `reproduce rank` with its tables and figure."""

import math

import pytest
from made_up import record_of

from icecore.cli import main
from icecore.paper import EXPERIMENTS, evidence_of
from icecore.paper.rank import ARMS, RANKS, WIDTHS, Place, places, points
from icecore.paper.rank_tables import Curve, outcomes
from icecore.reporting.ranks import HalfwayRank
from icecore.store import Records

GRID = (2, 4, 8, 16, 32, 64)


def logistic(rank: float, centre: float, steepness: float = 2.0) -> float:
    return 1 / (1 + math.exp(-steepness * (math.log2(rank) - math.log2(centre))))


def curve_of(centres: list[float], baseline: float = 20.0, grid: tuple[int, ...] = GRID) -> HalfwayRank:
    """Return seeds whose accuracies follow a logistic curve around their centres."""
    by_rank = {
        rank: {seed: baseline + (100 - baseline) * logistic(rank, centre) for seed, centre in enumerate(centres)}
        for rank in grid
    }
    return HalfwayRank(by_rank, baseline)


@pytest.mark.parametrize("centre", [3.0, 8.0, 11.0, 50.0])
def test_the_halfway_rank_of_a_logistic_curve_is_its_centre(centre):
    half = curve_of([centre] * 3)
    assert half.rank == pytest.approx(centre, rel=0.04), "half a step of the grid"
    assert str(half) == f"{half.rank:.1f}", "seeds that agree have no interval"


def test_seeds_that_differ_widen_the_interval_and_few_have_a_range():
    few, many = curve_of([4.0, 8.0, 16.0]), curve_of([4.0, 6.0, 8.0, 11.0, 16.0])
    assert few.interval == (min(few.by_seed), max(few.by_seed))
    low, high = many.interval
    assert min(many.by_seed) < low < many.rank < high < max(many.by_seed), "a mean of five varies less than one"
    assert many.rank == pytest.approx(8.0, rel=0.1)


def test_a_rank_beyond_those_that_were_run_is_a_bound():
    assert str(curve_of([1.1] * 3)) == "< 2"
    assert str(curve_of([120.0] * 3)) == "> 64"
    assert not curve_of([120.0] * 3).is_inside
    below_baseline = HalfwayRank({rank: {0: 10.0} for rank in GRID}, 20.0)
    assert str(below_baseline) == "> 64", "nothing above the baseline is nowhere halfway"


def test_every_arm_is_run_at_the_first_width_and_random_at_all_of_them():
    for scale in ("paper", "laptop"):
        here = list(places(scale))
        assert {place.arm for place in here if place.width == WIDTHS[scale][0]} == set(ARMS)
        assert {place.width for place in here if place.arm == "random"} == set(WIDTHS[scale])
        assert all(place.rank <= place.width and place.rank in RANKS[scale] for place in here)
        assert here[0].arm == "random"
        assert len({place.name for place in here}) == len(here)


def test_rates_keep_the_size_of_a_step():
    cells = {cell.name: cell.made for cell in EXPERIMENTS["rank"].at("laptop", "released")}
    narrow, wide = (cells[Place("needle", "random", 128, rank).name] for rank in (2, 32))
    assert narrow.training["embedding_rank"] == 2
    assert narrow.of_one_seed.rank is not None
    assert [low / high for low, high in zip(wide.rates or (), narrow.rates or (), strict=True)] == pytest.approx(
        [1 / 4, 1 / 4], rel=0.02
    )


def test_predictions_compare_halfway_ranks():
    def curve(task: str, arm: str, width: int, centre: float) -> Curve:
        return Curve(
            task, arm, width, 20.0, {rank: dict(each) for rank, each in curve_of([centre] * 3).accuracies.items()}
        )

    found = [curve(task, "random", 128, 8.0) for task in ("needle", "parentheses")]
    found += [curve("parentheses", "learned", 128, 4.0), curve("needle", "random", 64, 24.0)]
    rows = {row["prediction"]: row for row in outcomes(found, (128, 64)).records()}
    assert float(rows["a learned basis needs fewer"]["ours"]) == pytest.approx(0.5, rel=0.05)
    assert rows["a learned basis needs fewer"][""] == "held"
    assert float(rows["r* belongs to the task"]["ours"]) == pytest.approx(3.0, rel=0.05)
    assert rows["r* belongs to the task"][""] == "failed"
    assert rows["needle needs the most directions"]["ours"] == "1.00"
    assert rows["the body's own directions need fewer"][""] == "not run"


def test_recorded_runs_give_ranks_accuracies_and_a_figure(tmp_path, capsys):
    evidence = evidence_of(Records(tmp_path), "laptop")
    cells = {cell.name: cell.made for cell in EXPERIMENTS["rank"].of(evidence)}
    for place in places("laptop"):
        if (place.task, place.arm, place.width) == ("needle", "random", 128):
            cell = cells[place.name]
            accuracy = 0.2 + 0.8 * logistic(place.rank, 8.0)
            Records(tmp_path).append([record_of(cell, seed, accuracy, "fp32") for seed in range(3)])
    measured = evidence_of(Records(tmp_path), "laptop")
    (claim,) = [one for one in EXPERIMENTS["rank"].claims_of(measured) if one.ours is not None]
    assert [len(source.runs) for source in claim.sources] == [3] * 6
    assert {point.runs for point in points(measured)} == {source.runs for source in claim.sources}
    flags = ["--scale", "laptop", "--results", str(tmp_path)]
    assert main(["claims", "rank", *flags]) == 0
    said = capsys.readouterr().out
    assert "r*: rank at which accuracy is halfway" in said
    assert "Median test accuracy in % by rank" in said
    assert main(["figure", "rank", *flags, "--out", str(tmp_path / "rank.png")]) == 0
    assert "6 points, 18 values" in capsys.readouterr().out
