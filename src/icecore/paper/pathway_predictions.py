"""Predictions about thaw, transplant and rank, written before any of their runs, at either scale.

All are ours. A score is the mean over the causal measures of `icecore track`: 1 is an unchanged mechanism, 0 an
unrelated network. r* is the rank at which accuracy is halfway between the baseline and 100 %.
"""

from icecore.paper.bodies_predictions import Theory

GUESS = "our guess"

SLOW_REFINES = Theory(
    "a slow thaw refines",
    "wider body, lowest rate: the lowest score of the four tasks",
    0.75,
    1.0,
    "lazy training: arXiv 1812.07956",
)
FAST_REPLACES_MORE = Theory(
    "a fast thaw replaces more",
    "wider body: score at the lowest rate minus that at the highest, mean over tasks",
    0.1,
    1.0,
    GUESS,
)
GAIN_REPLACES = Theory(
    "where there is something to gain, more is replaced",
    "middle rate: score at the wider body minus that at the narrower one, mean over tasks",
    0.0,
    1.0,
    GUESS,
)
SHORT_HEAD_REPLACES = Theory(
    "a short head replaces more",
    "score without minus score with U at its initial norm, mean over tasks and widths",
    0.0,
    1.0,
    "arXiv 2405.16747",
)
NORMAL_IS_OTHER = Theory(
    "full training finds another mechanism",
    "the highest score of full training from the same seeds, wider body",
    0.0,
    0.5,
    GUESS,
)
OWN_BODY_HELPS = Theory(
    "a body helps its own task",
    "points above a random body on the diagonal, the least of tasks and widths",
    -1.0,
    100.0,
    GUESS,
)
OTHERS_DO_NOT_HELP = Theory(
    "a body does not help other tasks",
    "points above a random body off the diagonal, mean over pairs and widths",
    -100.0,
    0.0,
    GUESS,
)
LANGUAGE_HELPS_NEEDLE = Theory(
    "a body of a text helps to look up",
    "needle: points above a random body, the best of the widths",
    5.0,
    100.0,
    "induction heads: arXiv 2209.11895",
)
FLAT_IN_WIDTH = Theory(
    "r* belongs to the task",
    "largest factor of r* between widths, random basis, over tasks",
    1.0,
    2.0,
    GUESS,
)
NEEDLE_NEEDS_MOST = Theory(
    "needle needs the most directions",
    "r* of needle over the largest of the other tasks, random basis",
    1.0,
    64.0,
    "ten of our directions keep less of needle than of other tasks",
)
LEARNED_BASIS = Theory(
    "a learned basis needs fewer",
    "r* of a learned over that of a random basis, mean factor over tasks",
    0.0,
    0.8,
    GUESS,
)
BODY_BASIS = Theory(
    "the body's own directions need fewer",
    "r* in the body's basis over that of a random one, mean factor over tasks",
    0.0,
    1.0,
    GUESS,
)
SUBSPACE = Theory(
    "rank is not the number of parameters",
    "r* of the subspace with as many parameters over that of rank, mean factor over tasks",
    0.0,
    1.0,
    "arXiv 1804.08838 finds that few parameters suffice",
)
TOKENS_NEED_MORE = Theory(
    "tokens need more than U",
    "r* of tokens alone over that of U alone, mean factor over tasks",
    1.0,
    64.0,
    GUESS,
)
