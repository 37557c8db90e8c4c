"""The paper's numbers beside ours: verdicts by tolerances fixed beforehand, tables and figures from records."""

import json
from pathlib import Path

import pytest
from made_up import cells_at, record, record_of, recorded

from icecore.cli import main
from icecore.models import Transformer
from icecore.paper import EXPERIMENTS, claims_of, evidence_of, spent_on, table1, table2, table4, table9
from icecore.paper.accuracy import judge
from icecore.paper.differences import median_interval
from icecore.paper.evidence import Spent
from icecore.paper.numbers import BETWEEN, SOLVED, Number
from icecore.paper.scales import FOUR, PRESETS, SCALES
from icecore.paper.shares import choices_of
from icecore.paper.table1 import SHORT_STRINGS_IN
from icecore.store import Records
from icecore.sweeps.names import CellName
from icecore.tasks import make_task
from icecore.tasks.parentheses import BALANCED


def test_every_number_of_the_paper_has_a_cell_and_a_reason():
    printed = {"table1": table1.NUMBERS, "table2": table2.NUMBERS, "table9": table9.NUMBERS}
    for name, wanted in printed.items():
        for scale in SCALES:
            assert {number.cell for number in wanted} == {cell.name for cell in EXPERIMENTS[name].at(scale, "released")}
        assert all(number.tolerance.reason and number.tolerance.points > 0 for number in wanted)
    assert [len(wanted) for wanted in printed.values()] == [20, 15, 6]


@pytest.mark.parametrize("preset", PRESETS)
def test_accuracies_are_compared_with_every_preset(tmp_path, preset):
    names = ["table1", "table2", "table9", "init", "rates"]
    claims = claims_of(names, "paper", preset, Records(tmp_path))
    assert {claim.name for claim in claims} == set(names)
    assert {claim.verdict for claim in claims} == {"not run"}


def test_table6_counts_parameters():
    claims = {claim.cell: claim for claim in claims_of(["table6"], "paper", "released", Records(Path("nowhere")))}
    assert len(claims) == 16
    assert [cell for cell, claim in claims.items() if claim.verdict != "reproduced"] == [
        "modular-addition, E_token",  # the paper's row has 97 tokens
        "modular-addition, U",
    ]
    assert claims["modular-addition, U"].ours == 203_776
    assert claims["modular-addition, U"].remarks.startswith("the paper's row has 97 tokens")
    assert claims["needle, F"].ours == 25_194_496


ANY = CellName("needle", "Random")


def test_verdicts():
    solved = Number(ANY, 100.0, SOLVED)
    assert judge(solved, 99.2, "paper")[2] == "reproduced"
    assert judge(solved, 98.9, "paper")[2] == "differs"
    assert judge(solved, None, "paper")[2] == "not run"
    assert judge(Number(ANY, 26.6, BETWEEN), 31.5, "paper")[2] == "reproduced"
    assert judge(solved, 96.0, "laptop")[2] == "reproduced"
    assert judge(Number(ANY, 7.5, BETWEEN), 96.0, "laptop")[2] == "differs"
    assert judge(None, 50.0, "paper")[2] == "nothing to compare with"


def test_claims_are_medians_of_what_is_stored(tmp_path):
    cell = cells_at("table1")[0]
    Records(tmp_path).append(
        record_of(cell, seed, accuracy) for seed, accuracy in enumerate([1.0, 0.99, 0.995, 1.0, 1.0])
    )
    claims = claims_of(["table1"], "paper", "released", Records(tmp_path))
    assert len(claims) == 20
    first = claims[0]
    assert (first.cell, first.paper, first.n, first.verdict) == (
        "modular-addition, Random 1024",
        100.0,
        5,
        "reproduced",
    )
    assert first.ours == pytest.approx(100)
    assert first.spread == pytest.approx((99.0, 100.0))
    assert first.baseline == pytest.approx(20.0)
    assert {claim.verdict for claim in claims[1:]} == {"not run"}


def test_precisions_are_not_mixed(tmp_path):
    """A seed run again in another precision stands beside the cell's number, and does not replace one of its seeds."""
    cell = cells_at("table1")[0]
    made = [(0, "bf16", 0.8), (1, "bf16", 0.9), (2, "bf16", 1.0), (0, "tf32", 1.0)]
    Records(tmp_path).append(record_of(cell, seed, accuracy, precision) for seed, precision, accuracy in made)
    claim = claims_of(["table1"], "paper", "released", Records(tmp_path))[0]
    assert (claim.ours, claim.n) == (pytest.approx(90.0), 3)
    assert claim.note.endswith("needs; counted in bf16; in tf32 100.0, 1 seed")
    assert claim.explanation == "unexplained", "one seed is no ground"
    Records(tmp_path).append(record_of(cell, seed, 1.0, "tf32") for seed in (1, 2))
    claim = claims_of(["table1"], "paper", "released", Records(tmp_path))[0]
    assert (claim.ours, claim.n) == (100.0, 3), "of equally many seeds the more exact precision counts"
    assert claim.note.endswith("counted in tf32; in bf16 90.0, 3 seeds")
    Records(tmp_path).append(record_of(cell, seed, 0.8) for seed in range(3, 10))
    claim = claims_of(["table1"], "paper", "released", Records(tmp_path))[0]
    assert (claim.verdict, claim.remarks) == ("differs", "counted in bf16; in tf32 100.0, 3 seeds")


def test_claims_as_json_and_markdown(tmp_path, capsys):
    at = ["--results", str(tmp_path)]
    (tmp_path / "runs.jsonl").touch()
    assert main(["claims", "table9", *at, "--json"]) == 0
    claims = json.loads(capsys.readouterr().out.splitlines()[-1])["claims"]
    assert [claim["verdict"] for claim in claims] == ["not run"] * 6
    assert set(claims[0]) >= {"name", "cell", "paper", "ours", "n", "spread", "baseline", "tolerance", "verdict"}
    assert main(["claims", "table9", *at, "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("| name | cell | paper | ours |")
    assert main(["reproduce", "table1", "--dry-run", "--scale", "paper", "--only", "needle, Random 1024", *at]) == 0
    first, total, advice = capsys.readouterr().out.splitlines()
    assert first == "needle, Random 1024, seeds 0, 1, 2: 30,000 seed-steps"
    assert total == "1 population, 30,000 seed-steps"
    assert "no time can be estimated" in advice
    only = ["--only", "needle, Random 16", "--json"]
    assert main(["reproduce", "table1", "--dry-run", "--scale", "paper", *only, *at]) == 0
    row = {"cell": "needle, Random 16", "seeds": [0, 1, 2], "seed_steps": 30_000, "seconds": None}
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"missing": [row]}
    several = ["--only", "needle, Random 16", "--only", "modular-addition, Random 16", "--only", "needle, Random"]
    assert main(["reproduce", "table1", "--dry-run", "--scale", "paper", *several, *at]) == 0
    labels = [line.partition(", seeds")[0] for line in capsys.readouterr().out.splitlines()[:-2]]
    assert labels == ["needle, Random 16", "modular-addition, Random 16", "needle, Random 1024"], "in that order"


def test_a_laptops_frozen_unembedding_has_the_gain_of_width_1024():
    inits = {cell.label: vars(cell.model)["init"] for cell in cells_at("table2", "laptop", "released")}
    assert {label for label, init in inits.items() if init == "matched-all"} == {f"{task}, E only" for task in FOUR}


def test_a_figure_is_drawn_from_what_is_recorded(tmp_path, capsys):
    assert main(["figure", "fig7", "--results", str(tmp_path)]) == 2
    assert f"there are no records in {tmp_path}" in capsys.readouterr().err
    recorded(tmp_path, cells_at("table9"))
    assert main(["figure", "fig7", "--results", str(tmp_path)]) == 2
    assert "no runs of fig7 are recorded" in capsys.readouterr().err
    of_widths = cells_at("fig7")[:20]
    of_init = [cell for cell in cells_at("init") if "released" not in cell.label or "lr" in cell.label]
    recorded(tmp_path, of_widths + of_init[:9])
    files = [tmp_path / "a.png", tmp_path / "new" / "a.pdf"]
    flags = [part for file in files for part in ("--out", str(file))]
    assert main(["figure", "fig7", "--results", str(tmp_path), *flags]) == 0
    assert "20 points, 60 values" in capsys.readouterr().out
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert files[1].read_bytes().startswith(b"%PDF")
    assert main(["figure", "fig7", "--results", str(tmp_path), "--out", str(tmp_path / "both")]) == 0
    assert {file.name for file in (tmp_path / "both").iterdir()} == {"fig7.png", "fig7.pdf"}
    assert main(["figure", "init", "--results", str(tmp_path), "--out", str(files[0]), "--json"]) == 0
    points = json.loads(capsys.readouterr().out.splitlines()[-1])["points"]
    assert {point["line"] for point in points} == {"Random", "Random, lr x5", "Random, matched"}
    assert main(["figure", "fig9", "--results", str(tmp_path)]) == 2
    assert main(["figure", "fig7", "--results", str(tmp_path), "--out", str(tmp_path / "a.xyz")]) == 2


def test_shares_of_variance_beside_the_papers(tmp_path, capsys):
    cells = {cell.label: cell for cell in cells_at("table4")}
    cell = cells["needle, Random 1024"]
    papers = {"embedding": (0.313, 0.018), "block0.stream": (0.300, 0.018), "final": (0.215, 0.016)}
    far = dict.fromkeys([*papers, "block1.stream"], (0.9, 0.5))
    for seed in range(5):
        config = cell.config((seed,), "bf16")
        variance = {"read": {**papers, "block1.stream": (0.9, 0.5)}, "all": far, "scored": far, "last": far}
        made = {"setting": cell.setting, "seed": seed, "config": config.as_json(), "variance": variance}
        Records(tmp_path, name="inside.jsonl").append([record(config.run_id, **made)])
    found = [claim for claim in claims_of(["table4"], "paper", "released", Records(tmp_path)) if claim.n]
    assert [claim.cell for claim in found][:2] == ["needle, Random 1024, PC Emb", "needle, Random 1024, PC L1"]
    assert {claim.verdict for claim in found} == {"reproduced"}
    first, second, *_ = choices_of([(EXPERIMENTS["table4"], table4.SHARES)], evidence_of(Records(tmp_path)))
    assert (first.positions, first.last_layer, first.numbers) == ("read", "after", 6)
    assert first.difference == pytest.approx(0, abs=1e-6)
    assert first.within == first.numbers > second.within
    assert (second.positions, second.last_layer) == ("read", "before")
    assert main(["claims", "table4", "--results", str(tmp_path)]) == 0
    assert "positions read, last layer after the final norm: 0.0 points" in capsys.readouterr().out


def test_a_difference_is_explained_or_called_unexplained(tmp_path):
    recorded(tmp_path, cells_at("table1"), seeds=5)
    claims = claims_of(["table1"], "paper", "released", Records(tmp_path))
    notes = {claim.cell: claim.explanation for claim in claims if claim.verdict == "differs"}
    assert notes["needle, Random 1024"] == "unexplained"
    assert notes["parentheses, Random 1024"] == "unexplained", "what is known accounts for 5 points, not for all"
    assert all(claim.remarks == "" for claim in claims if claim.verdict == "reproduced")


def test_what_was_changed_stands_beside_a_difference(tmp_path):
    """A change that gives the paper's number on one cell alone is a hint. A wide spread is a reason."""
    cells = {cell.label: cell for cell in cells_at("table1")}
    changed = {cell.label: cell for cell in cells_at("table1", "paper", "unfiltered")}
    lower = {cell.label: cell for cell in cells_at("rates")}
    accuracies = {
        "parentheses, Normal 16": [0.9] * 5,
        "parentheses, Normal 1024": [0.8] * 5,
        "decimal-addition, Normal 16": [0.3, 0.3, 0.4, 0.5, 1.0, 1.0],  # the paper has 67.5
        "decimal-addition, Random 16": [0.3, 0.4, 0.4, 0.5, 0.5, 0.5],  # and here 26.6
    }
    rows = [(cells[label], *one) for label, values in accuracies.items() for one in enumerate(values)]
    rows += [(changed["parentheses, Normal 16"], seed, 1.0) for seed in range(3)]
    rows += [(lower["parentheses, Normal 1024, lr 0.0003"], seed, 0.99) for seed in range(3)]
    rows += [(lower["parentheses, Normal 1024, lr 0.0001"], seed, 0.92) for seed in range(3)]  # the paper has 92.3
    in_tf32 = record_of(changed["decimal-addition, Random 16"], 0, 0.28, "tf32")
    Records(tmp_path).append([*(record_of(*row) for row in rows), in_tf32])
    frozen = {cell.label: cell for cell in cells_at("table2")}
    waves = {cell.label: cell for cell in cells_at("positions")}
    in_modes = [("needle", 0.985), ("decimal-addition", 0.3)]  # the paper has 98.5 and 48.5
    Records(tmp_path).append(
        record_of(cell, seed, value)
        for task, found in in_modes
        for cell, value in (
            (frozen[f"{task}, E_token & U"], 0.2),
            (waves[f"{task}, E_token & U, sinusoidal positions"], found),
        )
        for seed in range(3)
    )
    claims = claims_of(["table1", "table2"], "paper", "released", Records(tmp_path))
    notes = {claim.cell: claim.explanation for claim in claims if claim.explanation}
    assert notes == {
        "needle, E_token & U": "unexplained; with sinusoidal positions: 98.5, 3 seeds",
        "decimal-addition, E_token & U": "unexplained; with sinusoidal positions: 30.0, 3 seeds",
        "parentheses, Normal 16": "unexplained; with --preset unfiltered: 100.0, 3 seeds",
        "parentheses, Normal 1024": "unexplained; with lr 0.0003: 99.0, 3 seeds; with lr 0.0001: 92.0, 3 seeds",
        "decimal-addition, Normal 16": "within the 95% interval of our median, 30.0 to 100.0",
        "decimal-addition, Random 16": "unexplained; with --preset unfiltered in tf32: 28.0, 1 seed",
    }


@pytest.mark.parametrize(
    ("preset", "accuracy", "is_known"),
    [
        ("released", 0.948, True),
        ("paper", 0.973, True),
        ("paper", 0.948, False),
        ("released", 0.9, False),
        ("unfiltered", 0.948, False),
    ],
)
def test_what_is_known_accounts_for_so_much_and_with_its_presets(tmp_path, preset, accuracy, is_known):
    cells = {cell.label: cell for cell in cells_at("table1", "paper", preset)}
    cell = cells["parentheses, Random 1024"]
    Records(tmp_path).append(record_of(cell, seed, accuracy) for seed in range(3))
    claims = {claim.cell: claim for claim in claims_of(["table1"], "paper", preset, Records(tmp_path))}
    assert ("are test items" in claims[cell.label].explanation) == is_known


def test_the_interval_of_a_median_is_by_counting():
    """The second to the ninth of 10 seeds: the median is outside with probability 22 / 1024."""
    assert median_interval(list(range(10))) == (1, 8)
    assert median_interval([5, 1, 2, 3, 4, 0]) == (0, 5)
    assert median_interval([1, 2, 3, 4, 5]) is None
    assert median_interval([]) is None


def test_one_seed_is_no_ground_to_look_for_reasons(tmp_path, capsys):
    recorded(tmp_path, cells_at("table1"), seeds=1)
    claims = claims_of(["table1"], "paper", "released", Records(tmp_path))
    notes = {claim.cell: claim.explanation for claim in claims if claim.explanation}
    assert notes["needle, Random 1024"] == "1 seed so far"
    assert main(["claims", "table1", "--results", str(tmp_path), "--grid"]) == 0
    assert "(100.0), 1 seed " in capsys.readouterr().out


def test_a_record_without_its_config_is_named_and_skipped(tmp_path, capsys):
    Records(tmp_path).append([record("whole of it", config={"a": 1})])
    assert main(["claims", "table1", "--results", str(tmp_path), "--grid"]) == 0
    assert "the record of run whole of it is damaged and skipped" in capsys.readouterr().err
    assert main(["claims", "table1", "--results", str(tmp_path / "nowhere")]) == 2


def test_claims_say_what_their_runs_took(tmp_path, capsys):
    cells = cells_at("table1")[:2]
    for cell, device, seconds in zip(cells, ("this", "that"), (120.0, 30.0), strict=True):
        for seed in range(2):
            config = cell.config((seed,), "bf16")
            made = {"setting": cell.setting, "seed": seed, "config": config.as_json(), "baselines": {}}
            took = {"seconds": seconds, "seeds_at_once": 2, "device": device}
            Records(tmp_path).append([record(config.run_id, **made, **took)])
    found = spent_on(["table1", "table4"], "paper", "released", Records(tmp_path))
    assert found == [Spent("that", 2, 30.0), Spent("this", 2, 120.0)]
    assert spent_on(["table9", "fig4"], "paper", "released", Records(tmp_path)) == []
    assert main(["claims", "table1", "--results", str(tmp_path)]) == 0
    assert "2 runs, 2.0 minutes of this, concurrent runs counted separately" in capsys.readouterr().out


def test_whole_answers_stand_beside_tokens(tmp_path):
    cell = next(cell for cell in cells_at("table1") if cell.label == "decimal-addition, Random 1024")
    for seed, share in enumerate((0.2, 0.9, 0.8)):
        made = {
            "setting": cell.setting,
            "seed": seed,
            "config": cell.config((seed,), "bf16").as_json(),
            "baselines": {},
        }
        Records(tmp_path).append([record(str(seed), 1.0, exact_match=share, **made)])
    claims = {claim.cell: claim for claim in claims_of(["table1"], "paper", "released", Records(tmp_path))}
    assert claims[cell.label].note.endswith("exact match: 80.0")


def test_a_line_without_a_style_of_its_own_is_drawn_too(tmp_path):
    from icecore.drawing import write
    from icecore.reporting.figures.widths import Point, draw_widths

    points = [
        Point("needle", line, width, (50.0, 60.0), 20.0, (16, 32)) for line in ("Random", "half") for width in (16, 32)
    ]
    write(draw_widths(points, "a title"), [tmp_path / "figure.svg"])
    assert "half" in (tmp_path / "figure.svg").read_text()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("preset", PRESETS)
def test_initializations_are_told_apart_at_every_scale(tmp_path, scale, preset):
    """A laptop's bodies are matched anyway, so that only what says released is on the line of the scripts."""
    own = "paper" if preset == "paper" else "released"
    inits: dict[tuple[str, str, int], set[str]] = {}
    for name in ("fig7", "init"):
        for cell in cells_at(name, scale, preset):
            assert isinstance(cell.model, Transformer)
            if cell.name.kind == "Random":
                Records(tmp_path).append([record_of(cell, 0, 0.5)])
                inits.setdefault((cell.task.name, cell.setting, cell.model.width), set()).add(cell.model.init)
    points = EXPERIMENTS["init"].figures["init"].points(evidence_of(Records(tmp_path), scale, preset))
    assert len(points) == len(inits)
    lines = {"matched" if "matched" in point.line else own for point in points}
    assert lines == {init for each in inits.values() for init in each} == {own, "matched"}
    for init in lines:
        assert sum(("matched" in point.line) == (init == "matched") for point in points) == sum(
            each == {init} for each in inits.values()
        )


@pytest.mark.parametrize("scale", SCALES)
def test_the_higher_rate_is_higher_at_every_scale(scale):
    rates = {cell.label: cell.config((0,), "fp32").training.lr for cell in cells_at("init", scale)}
    assert rates["needle, Random 256, matched, lr x5"] == 5 * rates["needle, Random 256, matched"]


@pytest.mark.parametrize("preset", SHORT_STRINGS_IN)
def test_short_balanced_strings_are_as_many_as_the_reason_says(preset):
    items = make_task("parentheses", preset).test_items()
    short = [item for item in items if len(item.prompt) in (3, 5, 7) and item.answer == (BALANCED,)]  # and a question
    assert len(short) == SHORT_STRINGS_IN[preset]
    assert len(set(short)) == 1 + 2 + 5, "all there are"
