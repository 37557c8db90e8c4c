"""Test why random bodies call short balanced strings unbalanced: move the question mark in a trained run.

The released training data has no balanced string of 2, 4 or 6 characters, so the answer after six, for example, is
always "unbalanced". Here the question mark stays, but gets the embedding of position 8, where both answers occur, or
of position 9, where strings are never balanced. Nothing else changes. Unbalanced strings are the control.

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
    """Return the accuracy on all balanced and on all unbalanced strings of one length."""
    strings = list(itertools.product((OPEN, CLOSE), repeat=length))
    tokens = torch.tensor([(*string, QUESTION) for string in strings])
    balanced = torch.tensor([is_balanced(string) for string in strings])
    with torch.no_grad():
        logits = model.logits(parameters, tokens)[:, -1]
    right = (logits[:, BALANCED] > logits[:, UNBALANCED]) == balanced
    return right[balanced].double().mean().item(), right[~balanced].double().mean().item()


def with_question_at(place: int, parameters: Parameters, length: int) -> Parameters:
    """Return the parameters with the position embedding after `length` characters replaced by that of `place`."""
    position = parameters["position"].clone()
    position[length] = position[place]
    return {**parameters, "position": position}


def main(runs: Sequence[str]) -> None:
    print("accuracy on balanced and on unbalanced strings, by the position embedding of the question mark")
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
                print(f"  seed {seed}, {length} characters, position {', '.join(shown)}")


if __name__ == "__main__":
    main(sys.argv[1:])
