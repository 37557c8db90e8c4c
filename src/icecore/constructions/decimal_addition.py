"""Decimal addition: weigh the digits at two places ten to one, subtract the last digit written, drop a carry."""

import itertools
import math
from collections.abc import Iterator

from icecore.constructions.circuit import GAP, Circuit, on_circle
from icecore.tasks import DecimalAddition, Item
from icecore.tasks.decimal_addition import EQUALS, FIRST_ANSWER_DIGIT, PADDING, PLUS, STOP

DIRECTIONS = ("sum", "token_rest", "place_cosine", "place_sine", "end", "place_rest", "one")
STOPPED = -40.0  # the sum at a stop: lower than any sum, so that padding follows
TOKEN_LENGTH = 41.0  # norm of every token in `sum` and `token_rest`: equal, so that layer norm divides by a constant
PROMPT, ANSWER, LAST_DIGIT, LAST = -2.0, -1.0, 0.0, 1.0  # positions in the direction `end`
PLACE_LENGTH = math.sqrt(5)  # norm of a position: 1 on the circle, up to 2 in `end`
LENGTH = math.sqrt(TOKEN_LENGTH**2 + PLACE_LENGTH**2 + 1)
CARRY, CARRY_MARGIN = 9.45, 0.45  # a sum is at most 9.0 without a carry, and at least 9.9 with one
SHARP = 8.0  # gelu(-8) is 0 in float64
STOP_WINS, STOP_IS_ZERO = 200.0, 0.4  # digits have logits up to 96; at the last digit, stop stands for the digit 0
PADDING_WINS = 30.0
NEVER = -1_000.0


def circuit(task: DecimalAddition) -> Circuit:
    """Write the weights: one layer, seven directions.

    SOURCE: appendix F writes the next digit as x + y - z mod 10, where x, y and z are the numbers read so far and the
    sum written so far, as decimal fractions after the digit at hand. DIFFERS: two digits of these fractions do. With
    the sum t of both digits at a place, and the digit c just written, t_i + (t_(i-1) - c_(i-1)) / 10 lies at most .1
    below the sum with its carry. Scores that differ by ln 10 weigh neighbouring places ten to one. The paper's position
    embeddings hold 10^i; layer norm divides such a position by about 10^i, so its key would not depend on i. Two
    neurons make a step that drops 10, and the logits 2 c s - c^2 choose the digit c nearest to the sum s.
    """
    made = Circuit(task, DIRECTIONS, layers=1)
    write_tokens(made)
    write_positions(made, task)
    # Attend to the places i and i - 1 of both numbers, with weights 10 : 10 : 1 : 1. Plus and equals are the digit 0 at
    # places 0 and n + 1, which are one point of the circle.
    count = task.digits + 1
    sharp = sharpness_of_pairs(count)
    ahead = 0.5 + count / (2 * math.pi) * math.asin(math.log(10) / (2 * sharp * math.sin(math.pi / count)))
    x, y = on_circle(ahead, count)
    only_prompt = 2 * sharp + GAP
    scores = [
        (made.reading(place_cosine=x, place_sine=-y), made.reading(place_cosine=sharp)),
        (made.reading(place_cosine=y, place_sine=x), made.reading(place_sine=sharp)),
        (made.reading(constant=1), made.reading(end=-only_prompt)),
    ]
    made.attend(0, LENGTH, scores, {("sum", "sum"): -22.0})  # the weights add up to 22, and a digit d stands as -d / 10
    write_carry(made)
    for digit in range(10):
        made.unembed[FIRST_ANSWER_DIGIT + digit] = made.vector(sum=2 * digit, one=-(digit**2))
    made.unembed[STOP] = made.vector(end=STOP_WINS, one=STOP_IS_ZERO)
    made.unembed[PADDING] = made.vector(sum=-PADDING_WINS, one=-10 * PADDING_WINS)
    made.unembed[:PADDING] = made.vector(one=NEVER)
    made.unembed[PADDING + 1 : FIRST_ANSWER_DIGIT] = made.vector(one=NEVER)
    return made


def write_tokens(made: Circuit) -> None:
    sums = {PLUS: 0.0, EQUALS: 0.0, PADDING: 0.0, STOP: STOPPED}
    for digit in range(10):
        sums[digit] = sums[FIRST_ANSWER_DIGIT + digit] = -digit / 10
    for token, value in sums.items():
        made.tokens[token] = made.vector(sum=value, token_rest=math.sqrt(TOKEN_LENGTH**2 - value**2))


def write_positions(made: Circuit, task: DecimalAddition) -> None:
    """Place digit j of both numbers and of the answer at point j of a circle, plus and equals at point 0."""
    digits = task.digits
    places = [*range(1, digits + 1), 0] * 2 + [*range(1, digits + 2)]
    ends = [PROMPT] * task.prompt_length + [ANSWER] * (digits - 1) + [LAST_DIGIT, LAST]
    for position, (place, end) in enumerate(zip(places, ends, strict=True)):
        x, y = on_circle(place, digits + 1)
        rest = math.sqrt(PLACE_LENGTH**2 - 1 - end**2)
        made.positions[position] = made.vector(place_cosine=x, place_sine=y, end=end, place_rest=rest, one=1)


def sharpness_of_pairs(count: int) -> float:
    """Return the factor at which all but the two nearest of `count` points on a circle score `GAP` lower."""
    if count == 2:
        return GAP  # there are no others
    return 1.5 * GAP / (math.cos(math.pi / count) - math.cos(3 * math.pi / count))


def write_carry(made: Circuit) -> None:
    """Subtract 10 from sums above `CARRY`, by a step of two neurons: gelu(x + w) - gelu(x - w) is 0, or 2 w."""
    longest = math.sqrt(LENGTH**2 + STOPPED**2)  # the longest stream, in which layer norm leaves the least of a sum
    scale = 2 * SHARP / CARRY_MARGIN * longest / LENGTH
    for sign in (1, -1):
        read = made.reading(sum=scale, one=-scale * CARRY, constant=sign * SHARP)
        made.neuron(0, LENGTH, read, made.vector(sum=-10 * sign / (2 * SHARP)))


def count_inputs(task: DecimalAddition) -> int:
    return (9 * 10 ** (task.digits - 1)) ** 2


def every_input(task: DecimalAddition) -> Iterator[Item]:
    numbers = range(10 ** (task.digits - 1), 10**task.digits)
    for first, second in itertools.product(numbers, repeat=2):
        prompt = (*in_digits(first), PLUS, *in_digits(second), EQUALS)
        yield Item(prompt, (*(FIRST_ANSWER_DIGIT + digit for digit in in_digits(first + second)), STOP))


def in_digits(number: int) -> list[int]:
    """Return the digits, least significant first."""
    return [int(digit) for digit in reversed(str(number))]
