"""What the paper reports, and how far ours may be from it.

The tolerances of tables 1, 2 and 9 were fixed before any result of this size was recorded, the others before those of
their own table or figure, but not in ignorance: one unfinished run of needle, Random 1024, had been seen to solve it,
and a replication's figures for some cells were known. The laptop's line was set after the demo at those sizes, before
its other cells were run.

SOURCE: Zhong & Andreas, NeurIPS 2024, tables 1 and 2: test accuracy in %, medians of ten restarts; table 9, of which it
says neither how many restarts it has nor what was trained. Figure 7 has no numbers in print.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class Known:
    """Why a number is lower than the paper's, and with which presets by how many points at most."""

    why: str
    points: Mapping[str, float]

    def accounts_for(self, number: Number, values: Sequence[float], preset: str) -> bool:
        missing = number.paper - statistics.median(values)
        return preset in self.points and 0 < missing <= self.points[preset] + number.tolerance.points


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
TABLE9 = [
    number
    for kind in ("Random", "Normal")  # DIFFERS: the paper does not say which, so both stand beside its number
    for number in numbers(
        {"needle": (17.67,), "decimal-addition": (26.39,), "parentheses": (97.32,)}, (f"{kind} 512, linearized",)
    )
]
# SOURCE: table 6, width 1024. Counts are exact, so they have no tolerance.
TABLE6 = {
    "modular-addition": (99_328, 5_120, 99_328, 25_194_496),
    "needle": (262_144, 102_400, 262_144, 25_194_496),
    "decimal-addition": (31_744, 40_960, 31_744, 25_194_496),
    "parentheses": (4_096, 81_920, 4_096, 25_194_496),
}
TABLE6_DIFFERS = {"modular-addition": "the paper's row is of 97 tokens; its text and the scripts have 199"}
# SOURCE: table 3: accuracy in %, memorized bits, trained parameters, bits a trained parameter. The bits are those of
# rounded accuracies: accuracy x 262,144 x 9, chance not taken off. Fixed before any run of this size was recorded.
TABLE3 = {"Normal 128": (80.54, 1_900_177, 659_584, 2.88), "Random 128": (4.53, 106_876, 262_784, 0.41)}
TENTH = (0.1, "a tenth of the number: it is printed without a spread, and text and scripts train differently")
# A laptop's table is smaller: what is compared is whether Normal knows several times as much for each parameter.
LAPTOP_RATIO = 2.0
CONVERGED = (1.0, 'the paper says that both "have converged", without a number: the last tenth adds at most a point')
# Figure 6 has no numbers in print; its text speaks of "a sharp increase in error" from 12 over 16 to 32. The lines are
# drawn well within the replication's figures (5.2 times; 25, 36 and 9 times), before any run of ours.
SHARP_RISE_BETWEEN = (12, 32)
SHARP_RISE = (3.0, "a sharp increase between these widths, of which the paper gives no size")
FAR_BELOW_FROM = 32
FAR_BELOW = (3.0, "what is fully trained stays far below in the figure, which gives no number")
# A laptop's students are trained for hundreds of steps, in which Normal does not get that far; set after runs there.
LAPTOP_BELOW = (1.25, "a laptop's students are small and trained briefly")
# SOURCE: an independent replication (JAX, 5 seeds), its KL divergences by the target's width.
REPLICATION = {
    "Random": {4: 0.009, 8: 0.020, 12: 0.034, 16: 0.039, 32: 0.178, 64: 0.580, 128: 1.070},
    "Normal": {4: 0.003, 8: 0.002, 12: 0.005, 16: 0.004, 32: 0.007, 64: 0.016, 128: 0.121},
}
# Fixed before any run of these widths was looked into.
DIRECTIONS = Tolerance(
    10.0, "the paper does not say which positions and inputs are pooled, and restarts differ by points"
)
NEURONS = Tolerance(3.0, "a few of many hundred neurons: small shares, which vary with what is pooled")


@dataclass(frozen=True)
class Share:
    """One share of variance, in %: of a cell, at a place, within the top 10 directions or neurons."""

    cell: str
    kind: str  # directions or neurons
    layer: int  # 0: the embedding
    layers: int
    paper: float

    @property
    def column(self) -> str:
        short = f"L{self.layer}" if self.layer else "Emb"
        return f"{'PC' if self.kind == 'directions' else 'neuron'} {short}"

    @property
    def stream(self) -> str:
        """The residual stream there, in the last layer before the final norm."""
        return f"block{self.layer - 1}.stream" if self.layer else "embedding"

    @property
    def place(self) -> str:
        """Where it is taken to be measured: in the last layer after the final norm.

        The paper does not say. The tolerances are from before any run, this choice is from after the first runs: of
        eight readings it is the closest to Table 4, and of needle, Normal 1024, the only one near (39 for its 48 %;
        before the norm 94). Hugging Face's `output_hidden_states` gives the same.
        """
        return "final" if self.layer == self.layers else self.stream

    @property
    def tolerance(self) -> Tolerance:
        return DIRECTIONS if self.kind == "directions" else NEURONS


def shares(rows: dict[str, tuple[float, ...]]) -> list[Share]:
    """Rows as the paper prints them: directions at the embedding and each layer, then neurons."""
    places = len(next(iter(rows.values()))) // 2
    columns = [(kind, layer) for kind in ("directions", "neurons") for layer in range(places)]
    return [
        Share(cell, kind, layer, places - 1, value)
        for cell, values in rows.items()
        for (kind, layer), value in zip(columns, values, strict=True)
    ]


# SOURCE: tables 4 and 7.
TABLE4 = shares(
    {
        "modular-addition, Normal 1024": (42.0, 21.5, 13.8, 3.8, 1.6, 3.4),
        "modular-addition, Random 1024": (72.9, 63.6, 44.7, 2.8, 3.3, 2.9),
        "decimal-addition, Normal 1024": (45.3, 87.0, 87.3, 1.7, 3.3, 2.6),
        "decimal-addition, Random 1024": (55.1, 72.7, 63.5, 2.0, 3.9, 2.8),
        "needle, Normal 1024": (35.5, 83.5, 47.7, 1.5, 5.2, 2.8),
        "needle, Random 1024": (31.3, 30.0, 21.5, 1.8, 1.8, 1.6),
        "parentheses, Normal 1024": (72.0, 99.4, 98.2, 2.9, 7.8, 18.0),
        "parentheses, Random 1024": (74.9, 85.8, 80.9, 4.9, 4.0, 3.7),
        "memorization, Normal 128": (15.0, 25.3, 23.4, 10.2, 12.2, 10.5),
        "memorization, Random 128": (27.5, 27.5, 24.7, 9.9, 9.8, 9.7),
    }
)
TABLE7 = shares(
    {
        "decimal-addition, Normal 512": (40.7, 91.6, 89.6, 3.3, 6.4, 6.8),
        "decimal-addition, Random 512": (73.3, 62.6, 51.4, 4.3, 4.0, 3.6),
        "needle, Normal 512": (31.4, 75.4, 42.5, 2.8, 5.6, 3.9),
        "needle, Random 512": (51.3, 42.6, 33.9, 4.4, 4.6, 3.9),
        "parentheses, Normal 512": (47.5, 100.0, 99.9, 7.0, 11.1, 9.4),
        "parentheses, Random 512": (85.2, 89.1, 84.7, 9.7, 8.0, 6.7),
    }
)
# SOURCE: table 5: width 512, 4 layers.
TABLE5 = shares(
    {
        "Normal": (29.5, 27.3, 24.3, 23.2, 17.6, 8.6, 16.4, 14.7, 13.9, 5.9),
        "Random": (43.0, 30.2, 31.8, 32.1, 31.7, 3.3, 2.9, 2.8, 2.9, 2.9),
    }
)


@dataclass(frozen=True)
class Shape:
    """A difference of two losses of figure 4 that can be compared between texts, and what it may be."""

    first: str
    second: str
    paper: float | None
    least: float
    most: float
    tolerance: str
    reason: str


# SOURCE: section 5.2 and figure 4; written down before any language model of these sizes was trained.
LANGUAGE_SHAPES = (
    Shape("Random 512x2", "Normal 32x2", 0.0, -0.3, 0.3, "0.3", "Random 512 is said to be about Normal 32"),
    Shape("Random 512x2", "Normal 512x2", None, 0.3, math.inf, "at least 0.3", "Random is far above Normal"),
    Shape("Random 512x4", "Random 512x2", None, 0.0, math.inf, "at least 0", "2 layers beat 4 in Random"),
)
# Where a run has told the reasons of a difference apart; docs/results.md has the runs.
SHORT_STRINGS = "balanced strings of 2, 4 and 6 are all test items, which the stream drops"
SHORT_STRINGS_IN = {"released": 209, "paper": 119}  # of 4,000 test items
KNOWN = {
    label: Known(SHORT_STRINGS, {preset: 100 * SHORT_STRINGS_IN[preset] / 4000 for preset in presets})
    for label, presets in {  # those whose errors were looked at
        "parentheses, Random 1024": ("released", "paper"),
        "parentheses, E only": ("released",),
        "parentheses, U only": ("released",),
        "parentheses, E_token & U": ("released",),  # of one of the three seeds that err; all three err on 73 items
    }.items()
}
SHARES: dict[str, list[Share]] = {"table4": TABLE4, "table7": TABLE7}
NUMBERS: dict[str, list[Number]] = {"table1": TABLE1, "table2": TABLE2, "table9": TABLE9}
