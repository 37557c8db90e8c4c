"""The measures of a pathway: swaps, carry-over, patching, the loss barrier, movement, geometry, heads, frequencies."""

from collections.abc import Callable, Mapping
from typing import Any

from icecore.analysis.attention import attention_overlap, induction_scores
from icecore.analysis.circles import Circles, circles, spectrum_overlap, without_frequencies
from icecore.analysis.pairs import displacement, line_between, patched_accuracy
from icecore.analysis.pathway import Measure, Pair, Pathway, Setting
from icecore.models import Parameters, names_of_half, parameter_of_role
from icecore.tasks import ModularAddition, Needle

Made = tuple[list[Measure], dict[str, Any]]
Maker = Callable[[Pair], Made]


def measures_of(
    pathway: Pathway, after: Parameters, on_group: Callable[[], None] = lambda: None
) -> tuple[list[Measure], dict[str, Any]]:
    """Return the measures of a network after its body trained, and numbers behind them.

    `on_group` is called after each group of measures.
    """
    pair = Pair(pathway, after)
    found: list[Measure] = []
    details: dict[str, Any] = {"accuracy": pair.accuracy, "accuracy_before": pathway.accuracy}
    for make in makers_of(pathway.setting):
        more, numbers = make(pair)
        found += more
        details |= numbers
        on_group()
    return found, details


def makers_of(setting: Setting) -> list[Maker]:
    """Return the groups of measures that the model and the task allow."""
    makers: list[Maker] = [swaps]
    makers += [carry_over, patches] if setting.edited else []
    makers += [barrier, movement]
    makers += [geometry] if setting.edited else []
    makers += [heads] if any(name.endswith(".attention") for name in setting.model.activations) else []
    return makers + ([frequencies] if isinstance(setting.task, ModularAddition) else [])


def placed(name: str, numbers: list[float], causal: bool = True) -> Measure:
    """Make a measure from three numbers: this network's, a refined mechanism's and a replaced one's."""
    here, refined, replaced = numbers
    return Measure(name, here, refined, replaced, causal)


def swaps(pair: Pair) -> Made:
    """Exchange embeddings and bodies. The null is another body with the same embeddings."""
    setting, before, after, null = pair.setting, pair.pathway.before, pair.after, pair.pathway.null

    def accuracy(embeddings: Parameters, body: Parameters) -> float:
        return setting.accuracy(setting.joined(embeddings, body))

    return [
        Measure("new embeddings, old body", accuracy(after, before), pair.accuracy, accuracy(after, null)),
        Measure("old embeddings, new body", accuracy(before, after), pair.pathway.accuracy, accuracy(before, null)),
    ], {}


def carry_over(pair: Pair) -> Made:
    """Keep and remove the top directions that were found before the body trained."""
    pathway = pair.pathway
    new = {place: each.second for place, each in pair.moments.items()}
    old = {place: each.first for place, each in pair.moments.items()}
    null = {place: each.second for place, each in pathway.to_null.items()}
    kept, lost = pathway.counts
    keep = [pathway.with_directions(pair.after, new, of, kept, "keep") for of in (old, new, null)]
    left = [pathway.with_directions(pair.after, new, of, lost, "remove") for of in (old, new, null)]
    return [
        placed("old directions kept", keep),
        placed("old directions removed: accuracy lost", [pair.accuracy - each for each in left]),
    ], {"directions_kept": kept, "directions_removed": lost}


def patches(pair: Pair) -> Made:
    """Patch activations of one network into the other, one point of the residual stream at a time."""
    setting, before, after = pair.setting, pair.pathway.before, pair.after
    found, numbers = [], {}
    for name, into, source, own in (
        ("old activations in the new network", after, before, pair.accuracy),
        ("new activations in the old network", before, after, pair.pathway.accuracy),
    ):
        here, null = (
            patched_accuracy(setting.model, into, each, setting.task, setting.items, setting.edited)
            for each in (source, pair.pathway.null)
        )
        found.append(Measure(name, mean(here), own, mean(null)))
        numbers[name] = here
    return found, {"patched": numbers}


def barrier(pair: Pair) -> Made:
    """Follow the straight line of the weights. An unrelated solution lies behind a barrier."""
    setting, null = pair.setting, pair.pathway.line_to_null
    here = line_between(setting.model, pair.pathway.before, pair.after, setting.task, setting.items)
    lines = {"losses": here.losses, "accuracies": here.accuracies, "null_losses": null.losses}
    return [Measure("loss barrier on the line", here.barrier, 0.0, null.barrier)], {"line": lines}


def movement(pair: Pair) -> Made:
    """Measure how far the matrices of the body have moved, and how long embeddings became."""
    setting, before, after = pair.setting, pair.pathway.before, pair.after
    body, embeddings = (names_of_half(setting.model, setting.dims, half) for half in ("body", "embeddings"))
    here, null = (displacement(before, other, body) for other in (after, pair.pathway.null))
    numbers = {
        "embeddings_moved": displacement(before, after, embeddings),
        "norms": {name: float(after[name].norm() / before[name].norm()) for name in embeddings},
    }
    return [Measure("displacement of the body", here, 0.0, null, causal=False)], numbers


def geometry(pair: Pair) -> Made:
    """Compare the activations of the residual stream, averaged over its layers."""
    places, kept = pair.setting.edited, pair.pathway.counts[0]
    here, null = (
        (
            {place: each[place].cka for place in places},
            {place: each[place].subspace_overlap(kept) for place in places},
        )
        for each in (pair.moments, pair.pathway.to_null)
    )
    names = ("CKA", "overlap of top directions")
    found = [
        Measure(name, mean(one), 1.0, mean(other), causal=False)
        for name, one, other in zip(names, here, null, strict=True)
    ]
    return found, {"cka": here[0], "overlap": here[1]}


def heads(pair: Pair) -> Made:
    """Compare where each head looks; for needle, also both scores of induction."""
    setting = pair.setting
    here = attention_overlap(setting.model, pair.pathway.before, pair.after, setting.items)
    numbers: dict[str, Any] = {"heads": here.tolist()}
    if isinstance(setting.task, Needle):
        scores = induction_scores(setting.model, pair.after, setting.task, setting.items)
        numbers["induction"] = [scores.value_to_marker.tolist(), scores.query_to_value.tolist()]
    null = float(pair.pathway.heads_of_null.mean())
    return [Measure("overlap of attention, head by head", float(here.mean()), 1.0, null, causal=False)], numbers


def frequencies(pair: Pair) -> Made:
    """Compare the frequencies of the numbers' embeddings, and remove the old key frequencies from the new ones."""
    setting, pathway = pair.setting, pair.pathway
    then, now, other = (rings_of(setting, each) for each in (pathway.before, pair.after, pathway.null))
    overlaps = [spectrum_overlap(then.spectrum, each.spectrum) for each in (now, then, other)]
    found = [placed("overlap of frequencies", overlaps, causal=False)]
    if then.key_frequencies and now.key_frequencies:
        left = [excluded(setting, pair.after, each.key_frequencies) for each in (then, now, other)]
        found.append(placed("old frequencies removed: accuracy lost", [pair.accuracy - each for each in left]))
    return found, {"key_frequencies": now.key_frequencies, "key_frequencies_before": then.key_frequencies}


def rings_of(setting: Setting, parameters: Parameters) -> Circles:
    assert isinstance(setting.task, ModularAddition)
    return circles(parameter_of_role(setting.model, parameters, "token")[: setting.task.modulus])


def excluded(setting: Setting, parameters: Parameters, keys: tuple[int, ...]) -> float:
    """Return the accuracy without these frequencies in the numbers' embeddings."""
    assert isinstance(setting.task, ModularAddition)
    name = next(name for name, spec in setting.model.specs(setting.dims).items() if spec.role == "token")
    modulus, token = setting.task.modulus, parameters[name].clone()
    token[:modulus] = without_frequencies(token[:modulus], keys)
    return setting.accuracy({**parameters, name: token})


def mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)
