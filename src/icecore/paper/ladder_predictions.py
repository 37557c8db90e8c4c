"""Predictions about the ladder, written before any of its runs, at either scale.

Two kinds. The order comes from theory: random bodies fail first on sensitivity, then on rounds of attention; symbols
move the width threshold smoothly; the circuit class alone does not matter up to length 32. The guesses are ours: which
difficulties a random body reaches by width 512. `icecore claims ladder` says which held. At laptop scale tasks are
smaller, so only the order is compared.

A width is the smallest at which the median test accuracy of the seeds reaches the target. A rung that is not reached
counts as twice the widest; two that are not reached are not compared. Shares of pairs count ties as a half; sensitivity
is the mean over answer tokens.
"""

from collections.abc import Mapping

from icecore.paper.bodies_predictions import Theory

PAIRS = "share of pairs (one reached by Random, one not) in which the one that is not reached has the higher"

SENSITIVITY_FIRST = Theory(
    "sensitivity decides",
    f"{PAIRS} sensitivity",
    0.7,
    1.0,
    "arXiv 2402.09963, 2606.08768",
)
SENSITIVITY_BEFORE_ROUNDS = Theory(
    "sensitivity before rounds",
    "that share for sensitivity minus that for rounds",
    0.0,
    1.0,
    "our reading of both",
)
ROUNDS_NEXT = Theory(
    "then rounds",
    "that share for rounds, among the half with the lower sensitivity",
    0.6,
    1.0,
    "arXiv 2402.09268, 2503.03961",
)
MORE_LAYERS = Theory(
    "more layers, more hops",
    "k-hop and cycles: rungs that Normal reaches with four layers minus those with two",
    1.0,
    6.0,
    "arXiv 2402.09268",
)
SYMBOLS_MOVE = Theory(
    "symbols move the width",
    "counting and sorting: mean factor of Random's width per doubling of symbols",
    1.05,
    2.0,
    "arXiv 2407.15160",
)
NO_CLIFF = Theory(
    "smoothly",
    "counting and sorting: largest factor of Random's width per doubling of symbols",
    1.0,
    2.0,
    "arXiv 2407.15160",
)
CLASS_ALONE = Theory(
    "class alone does not matter",
    "word problems: largest factor between two groups' widths for Random, at one length",
    1.0,
    2.0,
    "arXiv 2404.08819 bounds depth, which is not short here",
)
RANDOM_NEEDS_MORE = Theory(
    "Random needs more width",
    "mean factor of Random's width over Normal's, where both are reached",
    1.5,
    32.0,
    "the paper's figure 7",
)
ORDER = (
    SENSITIVITY_FIRST,
    SENSITIVITY_BEFORE_ROUNDS,
    ROUNDS_NEXT,
    MORE_LAYERS,
    SYMBOLS_MOVE,
    NO_CLIFF,
    CLASS_ALONE,
    RANDOM_NEEDS_MORE,
)

# By line of the paper's scale: the difficulties that Random reaches by width 512, and why. All others it does not.
REACHES: Mapping[str, tuple[tuple[int, ...], str]] = {
    "copying": ((8, 16, 32), "one round by position; the margin suffices for 32 positions at width 256"),
    "selective-copying": ((4,), "ranks must be counted, then looked up: two sharp rounds"),
    "sorting": ((5,), "few values are counted by one mean over the context, many are not"),
    "counting": ((16,), "a mean over the context counts, but each symbol needs a direction"),
    "multi-query-recall": ((2, 4), "as needle, which a matched body solves at width 256"),
    "compositional-recall": ((2,), "two keys must be joined before the lookup"),
    "k-hop": ((), "the last earlier occurrence must be told from a dozen earlier ones"),
    "k-hop, 4 layers": ((), "more random layers add noise, not hops"),
    "vector-addition": ((1, 2), "attention by position and the paper's modular addition, in a second place at most"),
    "modular-multiplication": ((59, 97), "addition with other names; of 23 too few pairs are there to generalize"),
    "multiplication": ((2, 4), "few products are memorized; with six bits carries are sensitive"),
    "sparse-parity": ((2, 3), "low sensitivity; random features hold products of two or three bits"),
    "parity": ((4,), "sensitivity is the length, and only 16 items can be memorized"),
    "dyck": ((), "two sharp rounds: the depth, then the last opening bracket of that depth"),
    "boolean-formula": ((2,), "128 formulas are memorized; deeper ones need a round per level"),
    "cycles": ((), "reach must double in each round"),
    "cycles, 4 layers": ((), "as with two layers"),
    "word-problem Z60": ((2,), "one product is modular addition; of more, a random body keeps no running product"),
    "word-problem A4xZ5": ((2,), "as Z60: the class alone does not matter"),
    "word-problem A5": ((2,), "as Z60: the class alone does not matter"),
}
