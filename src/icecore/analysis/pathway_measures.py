"""The measures of a pathway: swaps, carry-over, patching, the loss barrier, movement, geometry, heads, frequencies."""

from collections.abc import Callable, Mapping
from typing import Any

from icecore.analysis.attention import attention_overlap, head_scores
from icecore.analysis.circles import Circles, circles, spectrum_overlap, without_frequencies
from icecore.analysis.pairs import activations_from, displacement, line_between
from icecore.analysis.pathway import CONTRAST, Measure, Pair, Pathway, Setting
from icecore.models import Parameters, names_of_half, names_of_role, parameter_of_role
from icecore.tasks import ModularAddition

Made = tuple[list[Measure], dict[str, Any]]
Maker = Callable[[Pair], Made]


def measures_of(
    pathway: Pathway, after: Parameters, on_group: Callable[[], None] = lambda: None
) -> tuple[list[Measure], dict[str, Any]]:
    """Return the measures of a network after its body trained, and numbers behind them.

    `on_group` is called after each group of measures.
    """
    pair, is_better = Pair(pathway, after), pathway.setting.yardstick.is_better
    found: list[Measure] = []
    details: dict[str, Any] = {
        **pair.both,
        **{f"{name}_before": value for name, value in pathway.both.items()},
        "above_baseline": {"before": is_better(pathway.value), "after": is_better(pair.value)},
    }
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
    has_numbers = isinstance(setting.task, ModularAddition) and len(names_of_role(setting.model, "token")) == 1
    return makers + ([frequencies] if has_numbers else [])


def placed(setting: Setting, name: str, here: float, refined: float, *controls: float) -> Measure:
    """Make a causal measure of accuracies or losses. Its zero is the best of the controls and the baseline."""
    yardstick = setting.yardstick
    return Measure(name, here, refined, yardstick.best(*controls), contrast=yardstick.contrast)


def harms(pair: Pair, name: str, left: list[float]) -> Measure:
    """Make a causal measure of what a removal costs: of what was found before, here, and in the null."""
    yardstick = pair.setting.yardstick
    cost = {"accuracy": "accuracy lost", "loss": "loss added"}[yardstick.metric]
    here, refined, replaced = (yardstick.gain(pair.value) - yardstick.gain(each) for each in left)
    return Measure(f"{name}: {cost}", here, refined, replaced, contrast=yardstick.contrast)


def swaps(pair: Pair) -> Made:
    """Exchange embeddings and bodies. Both have two controls: another body, and another seed's embeddings."""
    setting, pathway, after, null = pair.setting, pair.pathway, pair.after, pair.pathway.null
    new = {"new embeddings, another body": setting.swapped(after, null)}
    old = {"old embeddings, another body": pathway.old_on_null}
    if pathway.null_on_old is not None:
        new["other embeddings, old body"] = pathway.null_on_old
        old["other embeddings, new body"] = setting.swapped(null, after)
    on_old, on_new = setting.swapped(after, pathway.before), setting.swapped(pathway.before, after)
    return [
        placed(setting, "new embeddings, old body", on_old, pair.value, *new.values()),
        placed(setting, "old embeddings, new body", on_new, pathway.value, *old.values()),
    ], {"controls": new | old}


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
        placed(pair.setting, "old directions kept", *keep),
        harms(pair, "old directions removed", left),
    ], {"directions_kept": kept, "directions_removed": lost}


def patches(pair: Pair) -> Made:
    """Patch activations of one network into the other, one point of the residual stream at a time."""
    setting, before, after = pair.setting, pair.pathway.before, pair.after
    found, numbers = [], {}

    def patched(into: Parameters, source: Parameters) -> dict[str, float]:
        hooks = {place: activations_from(setting.model, source, place) for place in setting.edited}
        return {place: setting.value(into, hook_of) for place, hook_of in hooks.items()}

    for name, into, source, own in (
        ("old activations in the new network", after, before, pair.value),
        ("new activations in the old network", before, after, pair.pathway.value),
    ):
        here, null = patched(into, source), patched(into, pair.pathway.null)
        found.append(placed(setting, name, mean(here), own, mean(null)))
        numbers[name] = here
    return found, {"patched": numbers}


def barrier(pair: Pair) -> Made:
    """Follow the straight line of the weights. An unrelated solution lies behind a barrier."""
    setting, null = pair.setting, pair.pathway.line_to_null
    here = line_between(setting.model, pair.pathway.before, pair.after, setting.task, setting.items)
    lines = {"losses": here.losses, "accuracies": here.accuracies, "null_losses": null.losses}
    contrast = setting.yardstick.contrast if setting.yardstick.metric == "loss" else CONTRAST
    return [Measure("loss barrier on the line", here.barrier, 0.0, null.barrier, contrast=contrast)], {"line": lines}


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
    """Compare where each head looks, and its scores."""
    setting, pathway = pair.setting, pair.pathway
    here = attention_overlap(setting.model, pathway.before, pair.after, setting.items)
    after = head_scores(setting.model, pair.after, setting.task, setting.items)
    scores = {
        name: {"before": pathway.head_scores[name].of_heads, "after": each.of_heads, "uniform": each.uniform}
        for name, each in after.items()
    }
    null = float(pathway.heads_of_null.mean())
    measure = Measure("overlap of attention, head by head", float(here.mean()), 1.0, null, causal=False)
    return [measure], {"heads": here.tolist(), "head_scores": scores}


def frequencies(pair: Pair) -> Made:
    """Compare the frequencies of the numbers' embeddings, and remove the old key frequencies from the new ones.

    A null with the same embeddings has the old frequencies, so it cannot be a control.
    """
    setting, pathway = pair.setting, pair.pathway
    then, now, other = (rings_of(setting, each) for each in (pathway.before, pair.after, pathway.null))
    found: list[Measure] = []
    if pathway.null_on_old is not None:
        here, null = (spectrum_overlap(then.spectrum, each.spectrum) for each in (now, other))
        found.append(Measure("overlap of frequencies", here, 1.0, null, causal=False))
        if then.key_frequencies and now.key_frequencies:
            left = [without(setting, pair.after, each.key_frequencies) for each in (then, now, other)]
            found.append(harms(pair, "old frequencies removed", left))
    return found, {"key_frequencies": now.key_frequencies, "key_frequencies_before": then.key_frequencies}


def rings_of(setting: Setting, parameters: Parameters) -> Circles:
    assert isinstance(setting.task, ModularAddition)
    return circles(parameter_of_role(setting.model, parameters, "token")[: setting.task.modulus])


def without(setting: Setting, parameters: Parameters, keys: tuple[int, ...]) -> float:
    """Return the accuracy without these frequencies in the numbers' embeddings."""
    assert isinstance(setting.task, ModularAddition)
    (name,) = names_of_role(setting.model, "token")
    modulus, token = setting.task.modulus, parameters[name].clone()
    token[:modulus] = without_frequencies(token[:modulus], keys)
    return setting.value({**parameters, name: token})


def mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)
