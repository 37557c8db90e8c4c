"""Decimal addition, digit by digit, least significant digit first."""

import collections
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from icecore.errors import require, require_choices
from icecore.tasks.base import Coordinates, exact_match, token_accuracy
from icecore.tasks.batch import Batch, Item
from icecore.tasks.drawing import random_bits, scale_down
from icecore.tasks.plain import PlainTask, require_test_size, unfiltered_setting

PLUS, EQUALS, PADDING, FIRST_ANSWER_DIGIT, STOP = 10, 11, 12, 20, 30  # SOURCE: appendix D.1.2


@dataclass(frozen=True)
class DecimalAddition(PlainTask):
    """Given two numbers of equal length, write their sum, all numbers reversed.

    In words, with 2 digits:   39 + 71 = 110, as  9 3 + 1 7 = 0 1 1
    As tokens:                 9 3 10 1 7 11 -> 20 21 21 30        (the answer's digits are 20..29)

    Teacher forcing: each answer token is predicted at the true token before it.
    """

    digits: int = 10  # SOURCE: section 4.1
    # DIFFERS: the scripts score where the *current* token belongs to the answer: never the first digit,
    # always the stop, and the padding after the stop of a shorter sum. The paper scores the digits.
    scored: Literal["input-is-answer", "target-is-digit"] = "input-is-answer"
    test_size: int = 4_000  # items held out; on a small task, too many distort the training data
    test_items_in_stream: bool = unfiltered_setting()

    name: ClassVar[str] = "decimal-addition"
    padding: ClassVar[int] = PADDING
    presets: ClassVar = {
        "released": {},
        "unfiltered": {"test_items_in_stream": True},
        "reconstructed": {"test_items_in_stream": True},
        "paper": {"scored": "target-is-digit"},
    }
    difficulty_setting: ClassVar = "digits"
    difficulties: ClassVar = (2, 5, 10, 20)

    def __post_init__(self) -> None:
        require(1 <= self.digits <= 1_000, f"digits must be 1 to 1,000, got {self.digits}")
        require_test_size(self.test_size)
        require_choices(self)

    @property
    def vocab_size(self) -> int:
        return STOP + 1

    @property
    def prompt_length(self) -> int:
        return 2 * self.digits + 2

    @property
    def max_length(self) -> int:
        return self.prompt_length + self.digits + 1

    def read(self, text: str) -> tuple[int, ...]:
        """Parse `9 3 + 1 7 =`, numbers reversed, spaces optional; digits after the = start the answer."""
        problem, equals, answer = text.replace(" ", "").partition("=")
        numbers = problem.split("+")
        require(
            equals == "="
            and len(numbers) == 2
            and all(part.isdecimal() and len(part) == self.digits for part in numbers)
            and (not answer or answer.isdecimal()),
            f"decimal-addition reads two numbers of {self.digits} digits, reversed, as in '9 3 + 1 7 =', not '{text}'",
        )
        first, second = ([int(digit) for digit in number] for number in numbers)
        begun = [FIRST_ANSWER_DIGIT + int(digit) for digit in answer]
        return self.checked_prompt((*first, PLUS, *second, EQUALS, *begun))

    def words(self, tokens: Sequence[int]) -> list[str]:
        special = {PLUS: "+", EQUALS: "=", PADDING: " ", STOP: "."}
        return [special.get(token, str(token % FIRST_ANSWER_DIGIT)) for token in tokens]

    def plain_item(self, rng: random.Random) -> Item:
        first, second = self.plain_number(rng), self.plain_number(rng)
        digits = [int(digit) for digit in reversed(str(first))]
        prompt = (*digits, PLUS, *(int(digit) for digit in reversed(str(second))), EQUALS)
        total = reversed(str(first + second))
        return Item(prompt, (*(FIRST_ANSWER_DIGIT + int(digit) for digit in total), STOP))

    def plain_number(self, rng: random.Random) -> int:
        length = rng.randint(self.digits, self.digits)  # the scripts make this draw too
        return rng.randint(10 ** (length - 1), 10**length - 1)

    def layout(self, item: Item) -> tuple[tuple[int, ...], range]:
        sequence = item.prompt + item.answer
        if self.scored == "target-is-digit":
            return sequence, range(self.prompt_length - 1, len(sequence) - 2)
        sequence += (PADDING,) * (self.max_length + 1 - len(sequence))
        return sequence, range(self.prompt_length, self.max_length)

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        digits, device = self.digits, generator.device
        # The batch is the innermost axis, so that each digit position is contiguous.
        least = torch.zeros((digits, 1), dtype=torch.int64, device=device)
        least[-1] = 1  # no leading zero
        words = random_bits((digits, count), generator)
        first = least + scale_down(words >> 32, 10 - least)
        second = least + scale_down(words & ((1 << 31) - 1), 10 - least)
        sums, carry = add_digits(first, second)

        start, end = self.prompt_length, self.max_length
        tokens = torch.empty((count, end), dtype=torch.int64, device=device)
        tokens[:, :digits] = first.T
        tokens[:, digits] = PLUS
        tokens[:, digits + 1 : start - 1] = second.T
        tokens[:, start - 1] = EQUALS
        tokens[:, start : end - 1] = sums.T + FIRST_ANSWER_DIGIT
        tokens[:, end - 1] = torch.where(carry, FIRST_ANSWER_DIGIT + 1, STOP)

        targets = torch.zeros_like(tokens)
        targets[:, start - 1 : end - 1] = tokens[:, start:]
        targets[:, end - 1] = torch.where(carry, STOP, PADDING)
        scored = torch.zeros((count, end), dtype=torch.bool, device=device)
        if self.scored == "input-is-answer":
            scored[:, start:] = True
            targets[:, start - 1] = 0
        else:
            scored[:, start - 1 : end - 2] = True
            scored[:, end - 2] = carry
            targets *= scored
            tokens[:, end - 2].masked_fill_(~carry, PADDING)  # the last digit is not an input
            tokens[:, end - 1] = PADDING
        return Batch(tokens, targets, scored)

    def items(self, batch: Batch) -> list[Item]:
        """Return prompts and full answers, including answer tokens that are not scored."""
        items = []
        for row in batch.tokens[:, : self.prompt_length].tolist():
            answer = self.solve(tuple(row))
            assert answer is not None
            items.append(Item(tuple(row), answer))
        return items

    def coordinates(self) -> Coordinates:
        return Coordinates(rounds=None, symbols=10, circuit_class="AC0")

    def solve(self, prompt: tuple[int, ...]) -> tuple[int, ...] | None:
        first, second = (prompt[begin : begin + self.digits][::-1] for begin in (0, self.digits + 1))
        if first[0] == 0 or second[0] == 0:
            return None
        total = str(sum(int("".join(map(str, number))) for number in (first, second)))
        return (*(FIRST_ANSWER_DIGIT + int(digit) for digit in reversed(total)), STOP)

    def accuracies(
        self, predictions: Int64[Tensor, "*seeds batch seq"], batch: Batch
    ) -> dict[str, Float[Tensor, "*seeds"]]:
        """Return the accuracy of scored tokens, the accuracy of scored digits, and exact match.

        Exact match covers every scored digit and stop. Under "input-is-answer" that excludes the first
        digit, which is never trained.
        """
        is_digit = (batch.targets >= FIRST_ANSWER_DIGIT) & (batch.targets < STOP)
        is_answer = batch.scored & (batch.targets != PADDING)
        return {
            "accuracy": token_accuracy(predictions, batch, batch.scored),
            "digit_accuracy": token_accuracy(predictions, batch, batch.scored & is_digit),
            "exact_match": exact_match(predictions, batch, is_answer),
        }

    def baselines(self) -> dict[str, float]:
        """Return the accuracy of the best guess from position and current token, fitted on independent draws."""
        rng = random.Random(0)
        seen = collections.defaultdict(collections.Counter)
        for position, token, target in self.transitions(self.plain_item(rng) for _ in range(BASELINE_ITEMS)):
            seen[position, token][target] += 1
        guess = {key: counts.most_common(1)[0][0] for key, counts in seen.items()}
        hits = [
            guess.get((position, token)) == target for position, token, target in self.transitions(self.test_items())
        ]
        return {"best_guess_from_position_and_token": sum(hits) / len(hits)}

    def transitions(self, items: Iterable[Item]) -> Iterable[tuple[int, int, int]]:
        """Yield (position, current token, target) at every scored position."""
        for item in items:
            sequence, positions = self.layout(item)
            for position in positions:
                yield position, sequence[position], sequence[position + 1]


BASELINE_ITEMS = 40_000  # SOURCE: the scripts call 40,000 items an epoch


def add_digits(
    first: Int64[Tensor, "digits batch"], second: Int64[Tensor, "digits batch"]
) -> tuple[Int64[Tensor, "digits batch"], Bool[Tensor, " batch"]]:
    """Add digits, least significant first; return the sum's digits and the final carry."""
    sums = first + second
    carry = torch.zeros_like(sums[0], dtype=torch.bool)
    for total in sums:
        total += carry
        carry = total >= 10
        total -= 10 * carry
    return sums, carry
