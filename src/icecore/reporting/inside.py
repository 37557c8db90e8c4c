"""What is inside a trained run: every analysis that fits it, each with its control, as one table of numbers."""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from icecore.analysis.attention import Induction, attention_maps, induction_scores
from icecore.analysis.capacity import capacity
from icecore.analysis.circles import circles, distance_irrelevance, gradient_symmetricity
from icecore.analysis.moments import (
    Moments,
    Positions,
    explained,
    in_parts,
    moments_of,
    streams_of,
    training_items,
)
from icecore.analysis.readout import logistic_readout, ridge_readout
from icecore.analysis.subspaces import BASES, accuracy_curve, counts_up_to
from icecore.errors import InputError, require, unknown_name
from icecore.models import Transformer, initialize
from icecore.sweeps.inside import TOP, sample_of
from icecore.tasks import Batch, Language, Memorization, ModularAddition, Needle
from icecore.training import Population, RunConfig

READOUT_SAMPLE = 40_000  # training items that readouts are solved on: all of a finite set of the paper's size
MAPS = "a 1 b 2 c 3 d 4 b"  # SOURCE: Figure 2


# Told how many parts of an analysis are done, and of how many.
Tell = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)  # each is itself alone, and can be a key
class Subject:
    """One seed of a run, and the same seed before training."""

    config: RunConfig
    model: Transformer
    parameters: dict[str, Tensor]
    untrained: dict[str, Tensor]
    sample: Batch
    trained_parameters: int
    frozen_parameters: int

    @staticmethod
    def of(config: RunConfig, population: Population, seed: int) -> "Subject":
        model = config.model
        if type(model) is not Transformer:  # a subclass may compute something else
            raise InputError(f"only transformers are looked into; the run has the model {model.name}")
        if seed not in config.seeds:
            raise InputError(f"the run has the seeds {list(config.seeds)}, not {seed}")
        device = population.device
        untrained = {name: value.to(device) for name, value in initialize(model, config.sizes, seed).items()}
        parameters = population.parameters(config.seeds.index(seed))
        return Subject(config, model, parameters, untrained, sample_of(config.task), *population.counts())


Both = tuple[dict[str, Moments], dict[str, Moments]]  # of the trained model, and of the untrained one


def both_moments(subject: Subject, positions: Positions, tell: Tell) -> Both:
    """On the same items."""
    trained, untrained = (
        moments_of(subject.model, parameters, told(subject.sample, tell, half), positions)
        for half, parameters in enumerate((subject.parameters, subject.untrained))
    )
    return trained, untrained


def told(batch: Batch, tell: Tell, half: int) -> Iterator[Batch]:
    """The batch in parts, telling how far this is; it is gone through twice, and this is the first or second time."""
    done = half * len(batch)
    for part in in_parts(batch):
        yield part
        done += len(part)
        tell(done, 2 * len(batch))


def variance(subject: Subject, positions: Positions, moments: Both) -> dict[str, Any]:
    """Table 4: shares of variance within the top 10 directions and neurons, at each place."""
    trained, untrained = moments
    return {
        "positions": positions,
        "activations": trained["embedding"].count,
        "trained": {place: asdict(explained(trained[place], TOP)) for place in streams_of(subject.model)},
        "untrained": {place: asdict(explained(untrained[place], TOP)) for place in streams_of(subject.model)},
    }


def causal(subject: Subject, moments: Both, items: int, place: str | None, tell: Tell) -> dict[str, Any]:
    """Accuracy when the stream, at one place or at all at once, keeps or loses more and more directions."""
    trained, untrained = moments
    task = subject.config.task
    test = task.test_set()[:items]
    counts = counts_up_to(subject.model.width)
    done = itertools.count(1)

    def on_count() -> None:
        tell(next(done), 2 * len(BASES) * len(counts))

    curves = [
        accuracy_curve(
            subject.model,
            subject.parameters,
            task,
            test,
            trained,
            untrained,
            counts,
            basis,
            mode,
            [place] if place else [],
            on_count,
        )
        for mode in ("keep", "remove")
        for basis in BASES
    ]
    return {"items": len(test), "curves": [asdict(curve) for curve in curves]}


def attention(subject: Subject, prompt: str | None, items: int, tell: Tell) -> dict[str, Any]:
    """Figure 2: where the tokens of a prompt look; of needle, the scores of both steps of induction."""
    task = subject.config.task
    found: dict[str, Any] = {}
    if isinstance(task, Needle):
        test = task.test_set()[:items]
        found["items"] = len(test)
        both = (("trained", subject.parameters), ("untrained", subject.untrained))
        for half, (name, parameters) in enumerate(both):
            scores = induction_scores(subject.model, parameters, task, told(test, tell, half))
            found[name] = {
                "value_to_marker": scores.value_to_marker.tolist(),
                "query_to_value": scores.query_to_value.tolist(),
                "best_value_to_marker": asdict(Induction.best(scores.value_to_marker)),
                "best_query_to_value": asdict(Induction.best(scores.query_to_value)),
                "uniform": [scores.value_to_marker_uniform, scores.query_to_value_uniform],
            }
    if prompt is None:
        prompt = MAPS if isinstance(task, Needle) and task.max_pairs >= 4 else None
        require(prompt is not None or bool(found), f"attention of {task.name} needs a prompt: --prompt TEXT")
    if prompt is not None:
        tokens = task.read(prompt)
        maps = attention_maps(subject.model, subject.parameters, tokens)
        found["prompt"] = {"text": prompt, "words": task.words(tokens), "maps": maps.tolist()}
    return found


def modular(subject: Subject) -> dict[str, Any]:
    """Figure 3's numbers: circles in the embedding, and whether the logits use them."""
    task = subject.config.task
    if not isinstance(task, ModularAddition):
        raise InputError(f"circles are those of modular-addition; the run is of {task.name}")

    def of(parameters: dict[str, Tensor]) -> dict[str, Any]:
        ring = asdict(circles(parameters["token"][: task.modulus]))
        spectrum = ring.pop("spectrum")
        return {
            **ring,
            "gradient_symmetricity": gradient_symmetricity(subject.model, parameters, task.modulus),
            "distance_irrelevance": distance_irrelevance(subject.model, parameters, task.modulus),
            "distance_irrelevance_of_largest_wrong": distance_irrelevance(
                subject.model, parameters, task.modulus, "largest-wrong"
            ),
            "spectrum": spectrum,
        }

    return {"trained": of(subject.parameters), "untrained": of(subject.untrained)}


def readout(subject: Subject, tell: Tell) -> dict[str, Any]:
    """The best that the unembedding alone could do on the untouched body."""
    task = subject.config.task
    items = training_items(task, READOUT_SAMPLE, "readout"), task.test_set()
    each = [
        ridge_readout(subject.model, subject.untrained, task.vocab_size, *items),
        logistic_readout(subject.model, subject.untrained, task.vocab_size, *items, tell),
    ]
    return {"readouts": [asdict(one) for one in each], "floors": task.floors()}


@torch.no_grad()
def memorized(subject: Subject) -> dict[str, Any]:
    """Table 3: bits, of the trained and of the untrained model."""
    task = subject.config.task
    if not isinstance(task, Memorization):
        raise InputError(f"bits are those of memorization; the run is of {task.name}")
    batch = task.test_set()

    def of(parameters: dict[str, Tensor]) -> dict[str, float]:
        right, loss = [], []
        for begin in range(0, len(batch), 4096):
            rows = batch[begin : begin + 4096].to(parameters["token"].device)
            logits = subject.model.logits(parameters, rows.tokens)[rows.scored]
            answers = rows.targets[rows.scored]
            right.append((logits.argmax(dim=1) == answers).float())
            loss.append(F.cross_entropy(logits, answers, reduction="none"))
        total = subject.trained_parameters + subject.frozen_parameters
        return capacity(torch.cat(right), torch.cat(loss), task.keys, subject.trained_parameters, total).as_json()

    return {"trained": of(subject.parameters), "untrained": of(subject.untrained)}


def analyses_for(subject: Subject, what: list[str]) -> list[str]:
    """The named analyses; by default those that fit the task."""
    if not what:
        task = subject.config.task
        fitting = {"attention": Needle, "modular": ModularAddition, "capacity": Memorization}
        unfit = {"readout"} if isinstance(task, Language) else set()  # it is too large
        unfit |= {"attention"} if subject.model.attention != "softmax" else set()
        return [name for name in NAMES if isinstance(task, fitting.get(name, object)) and name not in unfit]
    for name in what:
        if name not in NAMES:
            raise unknown_name("analysis", name, NAMES)
    return what


NAMES = ["variance", "causal", "attention", "modular", "readout", "capacity"]


def look_inside(
    subject: Subject,
    what: list[str],
    positions: Positions = "read",
    prompt: str | None = None,
    items: int = 1_000,
    place: str | None = None,
    tell: Callable[[str, int, int], None] | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each analysis by name, as it is finished; `tell` hears how far the present one is."""

    if place is not None and place not in streams_of(subject.model):
        raise unknown_name("place", place, streams_of(subject.model))

    def begin(name: str) -> Tell:
        if tell is None:
            return lambda _done, _total: None
        tell(name, 0, 1)
        return functools.partial(tell, name)

    @functools.cache
    def moments() -> Both:
        return both_moments(subject, positions, begin("moments"))

    run: dict[str, Callable[[], dict[str, Any]]] = {
        "variance": lambda: variance(subject, positions, moments()),
        "causal": lambda: causal(subject, moments(), items, place, begin("causal")),
        "attention": lambda: attention(subject, prompt, items, begin("attention")),
        "modular": lambda: modular(subject),
        "readout": lambda: readout(subject, begin("readout")),
        "capacity": lambda: memorized(subject),
    }
    for name in analyses_for(subject, what):
        begin(name)
        yield name, run[name]()
