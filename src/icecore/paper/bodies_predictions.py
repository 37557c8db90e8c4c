"""Predictions about other random bodies, written before any of their runs at the scale that they are about.

Some come from the literature, the others are our best guesses: for each body, matched, with trained embeddings, whether
it solves each of the four tasks, at width 256 of the paper's scale and at width 64 of the laptop scale. The
transformer's runs were there before, so it has none. `icecore claims bodies` says which held.
"""

from collections.abc import Mapping
from dataclasses import dataclass

LINE = 90.0  # % accuracy from which a task counts as solved; the paper's transformer has 95 on parentheses
MOD, NEEDLE, SUM, PARENTHESES = "modular-addition", "needle", "decimal-addition", "parentheses"

Guesses = Mapping[str, tuple[tuple[str, ...], str]]

# By body: the tasks that it solves, and why. All other tasks of the four it does not.
PAPER: Guesses = {
    "random attention": ((MOD,), "fixed mixing sums what few tokens say, but cannot look one up or count exactly"),
    "llama": ((MOD, NEEDLE, SUM, PARENTHESES), "rotary phases let trained tokens ask for a distance"),
    "mamba": ((MOD, PARENTHESES), "its memory counts, but 16 numbers per channel mix 30 pairs up"),
    "linear attention": ((MOD, PARENTHESES), "it sums over the past, but does not know the order"),
    "retnet": ((MOD, PARENTHESES), "rotary phases give the order, but sums mix 30 pairs up"),
    "gla": ((MOD, PARENTHESES), "its random gates forget too fast to look far back"),
    "mamba-2": ((MOD, PARENTHESES), "as gla"),
    "deltanet": ((MOD,), "it replaces what it should count, and does not know the order"),
    "gru": ((MOD,), "a random recurrent state fades within some tokens"),
    "lstm": ((MOD,), "the paper's LSTM fails even where it is trained, and a random state fades"),
}
# Items are short: four pairs, two digits, at most sixteen parentheses.
LAPTOP: Guesses = {
    "random attention": ((MOD,), "two tokens need no choice; digits and parentheses must be told apart by position"),
    "llama": ((MOD, SUM, PARENTHESES), "as the transformer; a lookup needs sharper attention than width 64 has"),
    "mamba": ((MOD, SUM, PARENTHESES), "its convolution reaches the neighbours, and its memory the few others"),
    "linear attention": ((MOD, PARENTHESES), "it sums over the past, but does not know the order of digits"),
    "retnet": ((MOD, SUM, PARENTHESES), "rotary phases give the order"),
    "gla": ((MOD, PARENTHESES), "its random gates forget within some tokens"),
    "mamba-2": ((MOD, PARENTHESES), "as gla"),
    "deltanet": ((MOD,), "it replaces what it should count, and does not know the order"),
    "gru": ((MOD,), "a random recurrent state fades within some tokens"),
    "lstm": ((MOD,), "as the GRU"),
}
SOLVES: Mapping[str, Guesses] = {"paper": PAPER, "laptop": LAPTOP}
PREDICTED_WIDTH = {"paper": 256, "laptop": 64}


@dataclass(frozen=True)
class Theory:
    """A prediction of the literature: what is measured, the range it should lie in, and the source."""

    label: str
    measure: str
    least: float
    most: float
    source: str


LOOKUP = Theory(
    "fixed mixing cannot look up",
    "needle: random attention minus the best baseline, points",
    -100.0,
    10.0,
    "MixiT, arXiv 2506.01115",
)
ARITHMETIC = Theory(
    "fixed mixing does arithmetic",
    "modular and decimal addition: the lower accuracy of random attention, %",
    LINE,
    100.0,
    "MixiT, arXiv 2506.01115",
)
MEMORY = Theory(
    "fixed mixing memorizes",
    "memorization: bits of random attention over bits of the transformer",
    0.8,
    10.0,
    "MixiT, arXiv 2506.01115",
)
NO_PARITY = Theory(
    "eigenvalues in [0, 1]: no parity",
    "parity, trained throughout: the best of linear attention with and without decays, Mamba and DeltaNet, %",
    0.0,
    LINE,
    "arXiv 2411.12537",
)
PARITY = Theory(
    "eigenvalues in [-1, 1]: parity",
    "parity, trained throughout: DeltaNet with negative eigenvalues, %",
    LINE,
    100.0,
    "arXiv 2411.12537",
)
CHEAP_QUERIES = Theory(
    "frozen queries and keys cost little",
    "language: loss with q and k frozen minus loss of full training, nats",
    -1.0,
    0.05,
    "MixiT, arXiv 2506.01115",
)
ATTENTION_COSTS_MORE = Theory(
    "frozen attention costs more than a frozen MLP",
    "language: loss with attention frozen minus loss with the MLP frozen, nats",
    0.0,
    10.0,
    "openai/parameter-golf, issue 1295",
)
