"""Settings that are valid, and probably a mistake."""

from collections.abc import Collection, Iterator

import torch

from icecore.models import initialize, names_of_half
from icecore.training.config import RunConfig
from icecore.training.from_run import Source
from icecore.training.identity import differences, settings_of


def advice_on(config: RunConfig, source: Source | None, given: Collection[str]) -> Iterator[str]:
    """Yield a line for each probable mistake; `given` names the training settings that are not the preset's."""
    for number, phase in enumerate(config.phases, 1):
        training = phase.training
        if training.advice is not None:
            yield training.advice
        if training.lr == 0 and len(config.phases) > 1:  # a whole run with rate 0 is a control of thaws
            yield (
                f"phase {number} has rate 0, so nothing trains in its {training.steps:,} steps; give it a rate, as in "
                f"{phase.trainable}:{training.steps}:1e-4"
            )
    if source is not None:
        yield from on_length(config, source, given)
        if source.take != "body":
            yield from on_tokens(config, source)
        if source.take == "embeddings":
            yield from on_own_body(config, source)


def on_length(config: RunConfig, source: Source, given: Collection[str]) -> Iterator[str]:
    """Yield a line if a run of the same task trains longer than its source, by the preset."""
    theirs, ours = source.config, config
    seen = [each.steps * each.training.batch for each in (theirs, ours)]
    is_preset = not {"steps", "batch"} <= set(given)
    if theirs.task.name == ours.task.name and is_preset and seen[1] > seen[0]:
        first, second = (
            f"{each.steps:,} steps of batch {each.training.batch:,} at rate {each.training.lr:g}"
            for each in (theirs, ours)
        )
        yield f"{source.name} trained {first}; this run, by the preset, {second}: give --steps, --batch and --lr"


def on_tokens(config: RunConfig, source: Source) -> Iterator[str]:
    """Yield a line if embeddings may stand for other tokens than those that they were trained on."""
    theirs, ours = source.config.task, config.task
    if theirs.name != ours.name:
        yield (
            f"{source.name} was trained on {theirs.name}, so its embeddings stand for other tokens than those of "
            f"{ours.name}; --body-from takes its body alone"
        )
        return
    first, second = (settings_of(task)["settings"] | {"test_size": None} for task in (theirs, ours))
    found = differences(first, second)
    if found:
        yield f"{source.name} has {'; '.join(found)}: its embeddings may stand for other tokens"


def on_own_body(config: RunConfig, source: Source) -> Iterator[str]:
    """Yield a line if the body around taken embeddings is the one that they were trained around."""
    if config.model != source.config.model:
        return
    seed, dims = config.seeds[0], config.dims
    own, theirs = initialize(config.model, dims, seed), source.parameters(seed)
    if all(torch.equal(theirs[name], own[name]) for name in names_of_half(config.model, dims, "body")):
        yield (
            f"seed {seed} has the body of {source.name}, around which its embeddings were trained: move them to "
            "others, as in --seeds 10,11 --shift 10, or start with all of it, with --from"
        )
