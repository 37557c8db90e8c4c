"""Why do random bodies take short balanced strings for unbalanced? Move the question mark, in a trained run.

The released stream holds no balanced string of 2, 4 or 6 characters, so that a question mark after six of them, say,
always asks for "unbalanced". Here it stays where it is, but gets the position embedding of place 8, where both answers
occur, or of place 9, where strings are never balanced; nothing else changes. Unbalanced strings are the control.

    python examples/short_strings.py results/weights/parentheses/d4c9473a2cb0 ...
"""

import itertools
import sys
from collections.abc import Sequence

import torch

import icecore as ice
from icecore.models import Model, Parameters
from icecore.tasks.parentheses import BALANCED, CLOSE, OPEN, QUESTION, UNBALANCED, is_balanced

LENGTHS, PLACES = (2, 4, 6), (8, 9)


def shares_right(model: Model, parameters: Parameters, length: int) -> tuple[float, float]:
    """Of all balanced strings of one length, and of all others, the share that is taken for what it is."""
    strings = list(itertools.product((OPEN, CLOSE), repeat=length))
    tokens = torch.tensor([(*string, QUESTION) for string in strings])
    balanced = torch.tensor([is_balanced(string) for string in strings])
    with torch.no_grad():
        logits = model.logits(parameters, tokens)[:, -1]
    right = (logits[:, BALANCED] > logits[:, UNBALANCED]) == balanced
    return right[balanced].double().mean().item(), right[~balanced].double().mean().item()


def with_question_at(place: int, parameters: Parameters, length: int) -> Parameters:
    """The same parameters, but that what follows `length` characters has the position embedding of `place`."""
    position = parameters["position"].clone()
    position[length] = position[place]
    return {**parameters, "position": position}


def main(runs: Sequence[str]) -> None:
    print("share right of balanced and of other strings; then with the question mark's embedding of other places")
    for run in runs:
        kept = ice.load(run, device="cpu")
        print(f"{run}: trained {kept.config.trainable}, width {kept.config.model.width}")
        for index, seed in enumerate(kept.config.seeds):
            parameters = kept.population.parameters(index)
            for length in LENGTHS:
                shown = []
                for place in (length, *PLACES):
                    moved = with_question_at(place, parameters, length)
                    balanced, other = shares_right(kept.config.model, moved, length)
                    shown.append(f"{place}: {balanced:.1f} and {other:.1f}")
                print(f"  seed {seed}, {length} characters, place {', '.join(shown)}")


if __name__ == "__main__":
    main(sys.argv[1:])
