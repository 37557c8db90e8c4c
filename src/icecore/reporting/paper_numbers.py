"""What the paper reports, and how far ours may be from it.

The tolerances were fixed before any of these results was recorded, but not in ignorance: one unfinished run of needle,
Random 1024, had been seen to solve it, and a replication's figures for some cells were known. The laptop's line was set
after the demo at those sizes, before its other cells were run.

SOURCE: Zhong & Andreas, NeurIPS 2024, tables 1, 2 and 9: test accuracy in %, medians of ten restarts. Figure 7 has
no numbers in print.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """In points of accuracy, and why."""

    points: float
    reason: str


SOLVED = Tolerance(1.0, "a task that is solved stays solved: restarts differ by tenths")
FAILED = Tolerance(2.0, "near chance: a few test items")
BETWEEN = Tolerance(5.0, "restarts differ by points; the paper gives no spread, and its random numbers are not ours")
BIMODAL = Tolerance(10.0, "restarts end far apart, and a median of ten moves with one of them")
# A laptop's tasks are smaller, so only the side of this line is compared.
LAPTOP_LINE = 95.0


def tolerance_for(paper: float) -> Tolerance:
    return SOLVED if paper >= 98 else FAILED if paper <= 5 else BETWEEN


@dataclass(frozen=True)
class Number:
    """One number of the paper: the cell's label and which accuracy of a run it is."""

    cell: str
    paper: float
    tolerance: Tolerance
    accuracy: str = "accuracy"


def numbers(rows: dict[str, tuple[float, ...]], columns: tuple[str, ...], accuracy: str = "accuracy") -> list[Number]:
    return [
        Number(f"{task}, {column}", value, tolerance_for(value), accuracy)
        for task, values in rows.items()
        for column, value in zip(columns, values, strict=True)
    ]


TABLE1 = [
    *numbers(
        {
            "modular-addition": (100.0, 1.3, 100.0, 97.2),
            "needle": (100.0, 7.5, 100.0, 12.0),
            "decimal-addition": (100.0, 26.6, 100.0, 67.5),
            "parentheses": (100.0, 87.3, 92.3, 100.0),
        },
        ("Random 1024", "Random 16", "Normal 1024", "Normal 16"),
    ),
    Number("modular-addition, LSTM 1024", 100.0, SOLVED),
    Number("needle, LSTM 1024", 99.5, SOLVED),
    Number("decimal-addition, LSTM 1024", 53.0, BIMODAL),
    Number("parentheses, LSTM 1024", 100.0, SOLVED),
]
PARTS = ("U only", "E only", "E_token & U")
TABLE2 = [
    *numbers({"modular-addition": (47.9, 68.3, 100.0)}, PARTS, "train_accuracy"),
    *numbers(
        {
            "modular-addition": (0.4, 1.2, 100.0),
            "needle": (17.7, 100.0, 98.5),
            "decimal-addition": (27.3, 100.0, 48.5),
            "parentheses": (92.3, 100.0, 100.0),
        },
        PARTS,
    ),
]
TABLE9 = numbers(
    {"needle": (17.67,), "decimal-addition": (26.39,), "parentheses": (97.32,)},
    ("linearized 512",),
)
# SOURCE: table 6, width 1024. Counts are exact, so they have no tolerance.
TABLE6 = {
    "modular-addition": (99_328, 5_120, 99_328, 25_194_496),  # DIFFERS: of 97 tokens; text and scripts have 199
    "needle": (262_144, 102_400, 262_144, 25_194_496),
    "decimal-addition": (31_744, 40_960, 31_744, 25_194_496),
    "parentheses": (4_096, 81_920, 4_096, 25_194_496),
}
NUMBERS: dict[str, list[Number]] = {"table1": TABLE1, "table2": TABLE2, "table9": TABLE9}
