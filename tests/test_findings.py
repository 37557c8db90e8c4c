"""Findings in sentences: counted from claims, for whatever part of them was measured."""

from typing import Any

from icecore.paper.findings import findings
from icecore.reporting.claim import Claim, Source


def claim(task: str, column: str, ours: float | None, verdict: str = "reproduced", **more: Any) -> Claim:
    name = more.pop("name", "table1")
    values = () if ours is None else (ours,)
    made = Claim(name, f"{task}, {column}", 100.0, ours, values, 20.0, "1", "a reason", verdict, place=(task, column))
    source = Source(made.cell, values, tuple(f"{more.get('run', 'a')}/{seed}" for seed in range(len(values))))
    return Claim(**{**vars(made), "sources": (source,)})


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
