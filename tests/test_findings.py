"""Findings in sentences: counted from claims, for whatever part of them was measured."""

from typing import Any

from icecore.paper.findings import findings
from icecore.reporting.claim import Claim, Source


def claim(task: str, column: str, ours: float | None, verdict: str = "reproduced", **more: Any) -> Claim:
    name, run = more.pop("name", "table1"), more.pop("run", "a")
    values = () if ours is None else (ours,)
    made = Claim(name, f"{task}, {column}", 100.0, ours, values, 20.0, "1", "a reason", verdict, place=(task, column))
    source = Source(made.cell, values, tuple(f"{run}/{seed}" for seed in range(len(values))))
    return Claim(**{**vars(made), "sources": (source,), **more})


TABLE1 = [
    claim("needle", "Random 1024", 99.0),
    claim("parentheses", "Random 1024", 94.75, "differs"),
    claim("decimal-addition", "Random 1024", None, "not run"),
    claim("needle", "Random 16", 20.0, "differs"),
]


def test_what_was_measured_is_counted_and_the_rest_is_silent():
    assert findings({}, "paper") == []
    solved, narrow, differing = findings({"table1": TABLE1}, "paper")
    assert solved == (
        "A frozen random body with trained embeddings (Random 1024) solves 1 of 2 tasks with 99 % or more: needle; "
        "parentheses reaches 94.8 %."
    )
    assert narrow.endswith("is no better than the best rule without learning on 1 of 1 task (needle).")
    assert differing == "2 of the paper's numbers differ by more than the tolerance: 2 in Table 1."


def test_the_line_is_the_scales():
    (solved, *_) = findings({"table1": [claim("needle", "Random 1024", 96.0)]}, "laptop")
    assert solved == (
        "A frozen random body with trained embeddings (in place of Random 1024) solves 1 of 1 task with 95 % or more: "
        "needle."
    )
    (solved, *_) = findings({"table1": [claim("needle", "Random 1024", 96.0)]}, "paper")
    assert solved.endswith("solves 0 of 1 task; needle reaches 96.0 %.")


def test_each_variant_is_judged_by_its_worst_task_on_test_items():
    table2 = [
        claim("needle", "U only", 17.0, name="table2"),
        claim("modular-addition", "U only", 0.5, name="table2"),
        claim("modular-addition (train)", "U only", 0.1, name="table2"),
        claim("needle", "E_token & U", 99.5, name="table2"),
    ]
    (sentence,) = findings({"table2": table2}, "paper")
    assert sentence == "With fewer parts trained, no body solves every task: U only reaches 0.5 % on modular-addition."


def test_only_other_runs_count_as_tried_again():
    again = [
        claim("parentheses", "Random 1024", 100.0, run="b"),
        claim("needle", "Random 16", 20.0),  # the same run: the preset does not change it
    ]
    *_, differing = findings({"table1": TABLE1}, "paper", {"table1": again})
    assert differing.endswith("(preset reconstructed), 1 of 1 are reproduced.")


def width_claim(rung: str, kind: str, width: float | None, note: str = "16") -> Claim:
    return claim(rung, f"{kind}: width", width, name="ladder", note=note, seeds=3)


def test_the_ladder_counts_difficulties_that_both_kinds_were_tried_on():
    steps = [
        width_claim("parity, length 4", "Random", 16.0),
        width_claim("parity, length 4", "Normal", 8.0),
        width_claim("parity, length 8", "Random", None, "> 64 (best 50.0 at 8)"),
        width_claim("parity, length 8", "Normal", 16.0),
        width_claim("sorting, values 5", "Random", 16.0),
        width_claim("sorting, values 5", "Normal", None, "> 8 (best 50.0 at 8, 16 not run)"),
    ]
    (sentence,) = findings({"ladder": steps}, "laptop")
    assert sentence == "Of 2 difficulties on the ladder of tasks, frozen bodies reach 1 and trained ones 2."


def test_transplants_onto_other_tasks_are_compared_with_a_random_body():
    cells = {
        "random body": 50.0,
        "body of needle": 90.0,  # its own task
        "body of parentheses": 56.0,
        "body of modular-addition": 52.0,
        "body of decimal-addition": 44.0,
    }
    own = [claim("needle", f"Random 32, {source}", ours, name="transplant") for source, ours in cells.items()]
    (sentence,) = findings({"transplant": own}, "laptop")
    assert sentence.endswith("in 1 of 3 cells, and worse in 1.")


def test_thaws_and_bodies_are_counted():
    notes = ("refined", "in part", "refined", "nothing to refine", "replaced")
    thawed = [
        claim("needle", f"Thawed 128, {number}", 1.0, name="thaw", note=note) for number, note in enumerate(notes)
    ]
    (sentence,) = findings({"thaw": thawed}, "laptop")
    assert sentence == "The mechanism after a thaw, in 4 cells: 2 refined, 1 in part, 1 replaced."
    bodies = [
        claim("needle", "Random 64, llama, matched", 96.0, name="bodies"),
        claim("parentheses", "Random 64, llama, matched", 90.0, name="bodies"),
        claim("needle", "Random 64, gru, library", 60.0, name="bodies"),
        claim("needle", "Random 64, llama, library", 99.0, name="bodies"),
        claim("needle", "Random 128, llama, matched", 99.0, name="bodies"),
    ]
    (sentence,) = findings({"bodies": bodies}, "laptop")
    assert sentence == "Tasks that frozen bodies of width 64 solve with 95 % or more: llama 1 of 2, gru 0 of 1."
