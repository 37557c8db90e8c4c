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


def by_rank(centres: list[float], grid: tuple[int, ...] = GRID) -> dict[int, dict[int, float]]:
    return {rank: dict(each) for rank, each in curve_of(centres, grid=grid).accuracies.items()}


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
        return Curve(task, arm, width, 20.0, by_rank([centre] * 3))

    found = [curve(task, "random", 128, 8.0) for task in ("needle", "parentheses")]
    found += [curve("parentheses", "learned", 128, 4.0), curve("needle", "random", 64, 24.0)]
    rows = {row["prediction"]: row for row in outcomes(found, (128, 64)).records()}
    assert float(rows["a learned basis needs fewer"]["ours"]) == pytest.approx(0.5, rel=0.05)
    assert rows["a learned basis needs fewer"][""] == "held (1 of 4)"
    assert float(rows["r* belongs to the task"]["ours"]) == pytest.approx(3.0, rel=0.05)
    assert rows["r* belongs to the task"][""] == "failed (1 of 4)"
    assert rows["needle needs the most directions"]["ours"] == "1.00"
    assert rows["the body's own directions need fewer"][""] == "not run"


@pytest.mark.parametrize(
    ("learned", "random", "ratio"),
    [([200.0], [200.0], ""), ([200.0], [16.0], "4.00"), ([16.0], [200.0], "0.25"), ([1.0], [1.0], "")],
    ids=["both beyond", "a bound from below", "a bound from above", "both below"],
)
def test_ranks_beyond_those_that_were_run_are_bounds(learned, random, ratio):
    """Two that are both beyond have no known ratio, and not the ratio 1."""
    by_arm = {"learned": learned, "random": random}
    found = [Curve("needle", arm, 128, 20.0, by_rank(each)) for arm, each in by_arm.items()]
    rows = {row["prediction"]: row for row in outcomes(found, (128, 64)).records()}
    ours = rows["a learned basis needs fewer"]["ours"]
    assert (float(ours) == pytest.approx(float(ratio), rel=0.05)) if ratio else ours == ""


def test_a_width_that_fails_without_restriction_has_no_halfway_rank():
    def curve(width: int, centre: float) -> Curve:
        grid = tuple(rank for rank in GRID if rank <= width)
        return Curve("needle", "random", width, 20.0, by_rank([centre], grid))

    rows = outcomes([curve(128, 16.0), curve(64, 20.0), curve(32, 99.0)], (128, 64, 32)).records()
    assert float(rows[0]["ours"]) == pytest.approx(1.25, rel=0.05), "of widths 128 and 64"
    rows = outcomes([curve(128, 16.0), curve(64, 99.0), curve(32, 99.0)], (128, 64, 32)).records()
    assert rows[0][""] == "not run", "one width alone has no factor"


def test_a_curve_that_levels_off_below_the_middle_is_halfway_nowhere():
    """A flat logistic curve would fit it, with its centre among the ranks."""
    heights = dict(zip(GRID, (0.0, 0.2, 0.4, 0.45, 0.45, 0.45), strict=True))
    half = HalfwayRank({rank: {0: 20 + 80 * height} for rank, height in heights.items()}, 20.0)
    assert (str(half), half.is_inside, half.side, half.bound) == ("> 64", False, 1, 64)
    above = HalfwayRank({rank: {0: 100 - 40 * height} for rank, height in heights.items()}, 20.0)
    assert (str(above), above.side, above.bound) == ("< 2", -1, 2)


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
