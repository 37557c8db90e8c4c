"""Effect of a faster precision on final results: the same seeds, trained twice."""

from collections.abc import Iterator
from dataclasses import dataclass

from icecore.models import Transformer
from icecore.tasks import make_task
from icecore.training import Precision, train

WIDTHS = {16: 10, 128: 3, 512: 2, 1024: 1}  # width: number of seeds
TRAINED_WIDTHS = (128, 16)  # widths of full training, which costs more


@dataclass(frozen=True)
class Agreement:
    """Each seed's final accuracy and loss on the test set, in float32 and in the other precision."""

    task: str
    width: int
    trainable: str
    seeds: int
    steps: int
    precision: str
    fp32_accuracy: list[float]
    accuracy: list[float]
    fp32_loss: list[float]
    loss: list[float]


def pairs() -> list[tuple[int, str]]:
    """Return widths and trainable sets, the fastest first."""
    return [(width, "all") for width in TRAINED_WIDTHS] + [(width, "embeddings") for width in WIDTHS]


def bench_precision(task: str, steps: int, device: str, precision: Precision) -> Iterator[Agreement]:
    """Yield one row per width and trainable set."""
    made = make_task(task)
    for width, trainable in pairs():
        model, seeds = Transformer(width=width), WIDTHS[width]
        results = [
            train(
                made, model, trainable, seeds, steps=steps, evaluate_every=steps, device=device, precision=each
            ).result
            for each in (Precision.fp32, precision)
        ]
        (exact, rounded) = ((result["accuracy"], result["loss"]) for result in results)
        yield Agreement(task, width, trainable, seeds, steps, precision, exact[0], rounded[0], exact[1], rounded[1])
