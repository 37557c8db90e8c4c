"""Many seeds of one model as one program. Only parameters have a seed axis; a batch serves all seeds."""

from collections.abc import Callable, Iterator, Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from icecore.models import LSTM, Model, Sizes, Transformer, computes_as, dense, initialize, lstm, packed, trained_names
from icecore.models.chunked import chunked_cross_entropy
from icecore.models.dense import Windows
from icecore.models.lstm import PackedSequences
from icecore.models.packing import Packing
from icecore.tasks import Batch
from icecore.training.precision import Precision
from icecore.training.work import Answers, Work, scored_positions, whole

CHANNELS_AT_ONCE = {"cpu": 384, "cuda": 1536}  # width x seeds in one pass: more would only take more memory
ROWS_EVALUATED_AT_ONCE = 500
TOKENS_EVALUATED_AT_ONCE = 2**14  # at least: short sequences go more at once, 262,144 pairs in 32 parts
LOGITS_EVALUATED_AT_ONCE = 2**26


class Population:
    """The parameters of several seeds, stacked, in two dicts: what trains and what is frozen.

    What trains are views of two long vectors a seed, `values[True]` of what decays and `values[False]` of what does
    not, so that clipping and the optimizer see one tensor each. Where a body in training is computed with in another
    type, `rounded` are these vectors in that type.
    """

    def __init__(
        self,
        model: Model,
        sizes: Sizes,
        seeds: tuple[int, ...],
        trainable: str,
        device: torch.device,
        precision: Precision = Precision.fp32,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.model, self.sizes, self.seeds = model, sizes, seeds
        self.device, self.precision = device, precision
        self.specs = specs = model.specs(sizes)
        names = trained_names(model, sizes, trainable)
        each = [initialize(model, sizes, seed) for seed in seeds]
        stacked = {name: torch.stack([one[name] for one in each]).to(device, dtype) for name in each[0]}
        self.frozen = {name: value for name, value in stacked.items() if name not in names}
        self.values: dict[bool, Tensor] = {}
        self.rounded: dict[bool, Tensor] = {}
        self.trained: dict[str, Tensor] = {}
        body_type = dtype if dtype == torch.float64 else precision.dtype
        is_rounded = body_type != dtype and computes_as(model, Transformer)
        in_body_type = {name for name in names if is_rounded and packed.is_of_body_type(name)}
        leaves: dict[str, Tensor] = {}
        copies: dict[str, Tensor] = {}
        self.names = {decays: [name for name in names if specs[name].decays is decays] for decays in (True, False)}
        for decays, members in self.names.items():
            if members:
                self.values[decays] = torch.cat([stacked[name].flatten(1) for name in members], dim=1)
                self.trained |= self.parts_of(self.values[decays], decays)
                leaves |= self.parts_of(self.values[decays], decays)
            if in_body_type & set(members):
                self.rounded[decays] = self.values[decays].to(body_type)
                copies |= self.parts_of(self.rounded[decays], decays)
                leaves |= {name: copies[name] for name in members if name in in_body_type}
        at_once = max(1, CHANNELS_AT_ONCE[device.type] // model.width)
        self.groups = [
            Group(self, leaves, copies.get("unembed"), slice(begin, begin + at_once), body_type)
            for begin in range(0, len(seeds), at_once)
        ]

    def parts_of(self, values: Float[Tensor, "seed value"], decays: bool) -> dict[str, Float[Tensor, "seed ..."]]:
        """Long vectors, such as `values[decays]`, as views of the parameters that they consist of."""
        specs = [self.specs[name] for name in self.names[decays]]
        parts = values.split([spec.size for spec in specs], dim=1)
        return {
            name: part.unflatten(1, spec.shape)
            for name, part, spec in zip(self.names[decays], parts, specs, strict=True)
        }

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over the parameters that are among `tensors`."""
        for name, value in {**self.trained, **self.frozen}.items():
            if name in tensors:
                value.copy_(tensors[name])
        self.round_values()
        for group in self.groups:
            group.frozen_body.clear()

    @torch.no_grad()
    def round_values(self) -> None:
        """Let the rounded copies follow values that were set from outside."""
        for decays, rounded in self.rounded.items():
            rounded.copy_(self.values[decays])

    def parameters(self, index: int) -> dict[str, Tensor]:
        """The parameters of one seed, to read; to change some, `load` them."""
        return {name: value[index] for name, value in {**self.trained, **self.frozen}.items()}

    def counts(self) -> tuple[int, int]:
        """How many parameters of one seed train, and how many are frozen."""

        def count(part: Mapping[str, Tensor]) -> int:
            return sum(value[0].numel() for value in part.values())

        return count(self.trained), count(self.frozen)

    def logits(self, work: Work) -> Float[Tensor, "seed query vocab"]:
        """Each seed's logits at the scored positions."""
        return torch.cat([group.logits(work) for group in self.groups])


class Group:
    """Seeds that are computed at once: all of narrow models, one by one of wide ones.

    `leaves` are what is computed with of what trains: its values or, in another type, their rounded copies. Of the
    unembedding there may be a rounded copy too.
    """

    def __init__(
        self,
        population: Population,
        leaves: Mapping[str, Tensor],
        rounded_unembed: Tensor | None,
        seeds: slice,
        dtype: torch.dtype,
    ) -> None:
        self.model, self.seeds, self.dtype = population.model, seeds, dtype
        self.rounded_unembed = None if rounded_unembed is None else rounded_unembed[seeds]
        self.leaves = {name: value[seeds].detach().requires_grad_() for name, value in leaves.items()}
        self.frozen = {name: value[seeds] for name, value in population.frozen.items()}
        self.parameters = {**self.leaves, **self.frozen}
        self.frozen_body: dict[str, dict[str, Tensor]] = {}  # by the maps that are joined
        self.blocks: list[list[Tensor]] | None = None

    def logits(self, work: Work) -> Float[Tensor, "seed query vocab"]:
        inputs, model = work.inputs, self.model
        if isinstance(model, Transformer) and isinstance(inputs, Packing | Windows):
            unembed = self.parameters["unembed"]
            return self.hidden(model, inputs).to(unembed.dtype) @ unembed.transpose(1, 2)
        if isinstance(model, LSTM) and isinstance(inputs, PackedSequences):
            return torch.stack(list(self.lstm_logits(model, inputs)))
        assert isinstance(inputs, Batch)
        return self.plain_logits(inputs)

    def losses_and_gradients(
        self, work: Work, share: Float[Tensor, ""] | None = None
    ) -> tuple[Float[Tensor, " seed"], dict[str, Tensor]]:
        """Each seed's mean over scored positions, times `share`, and the gradients of those leaves that it depends on.

        Where many positions are scored, their logits are never there all at once.
        """
        inputs, answers, model = work.inputs, work.answers, self.model
        if (
            isinstance(model, Transformer)
            and isinstance(inputs, Packing | Windows)
            and answers.target_log_probs is None
        ):
            hidden, unembed = self.hidden(model, inputs), self.parameters["unembed"]
            weight = answers.weight.to(unembed.dtype)
            weight = weight / weight.sum() if share is None else weight * (share / weight.sum())
            rounded = self.rounded_unembed if hidden.dtype != unembed.dtype else None
            found = chunked_cross_entropy(hidden, unembed, answers.targets, weight, rounded)
            gradients = {} if found.by_unembed is None else {"unembed": found.by_unembed}
            if found.by_hidden is not None:
                before = {name: leaf for name, leaf in self.leaves.items() if name != "unembed"}
                gradients |= gradients_of(hidden, found.by_hidden, before)
            return found.loss, gradients
        loss = losses(self.logits(work), answers)
        loss = loss if share is None else loss * share
        return loss.detach(), gradients_of(loss, torch.ones_like(loss), self.leaves)

    def hidden(self, model: Transformer, inputs: Packing | Windows) -> Float[Tensor, "seed query width"]:
        """What the unembedding reads at the scored positions."""
        if isinstance(inputs, Packing):
            return packed.packed_hidden(model, self.parameters, self.body(model, "kv"), inputs, self.dtype)
        body = self.body(model, dense.joined(model))
        return dense.dense_hidden(model, self.parameters, body, inputs, self.dtype)

    def plain_logits(self, batch: Batch) -> Float[Tensor, "seed query vocab"]:
        """All logits of the model as it is written, of which the scored ones are picked: the twin of the rest."""
        at = scored_positions(batch)
        if not self.model.vectorizes or self.count == 1:
            each = range(self.count)
            return torch.stack([self.model.logits(self.parameters_of(index), batch.tokens, at) for index in each])
        return torch.func.vmap(lambda one: self.model.logits(one, batch.tokens, at))(self.parameters)

    @property
    def count(self) -> int:
        return len(next(iter(self.leaves.values())))

    def parameters_of(self, index: int) -> dict[str, Tensor]:
        return {name: value[index] for name, value in self.parameters.items()}

    def body(self, model: Transformer, joined: str) -> dict[str, Tensor]:
        """The body to compute with, of `packed.units`; its frozen part is made once."""

        def trains(names: list[str]) -> bool:
            return any(name in self.leaves for name in names)

        if joined not in self.frozen_body:
            with torch.no_grad():
                self.frozen_body[joined] = packed.body_for_computing(
                    model, self.parameters, lambda names: not trains(names), self.dtype, joined
                )
        of_trained = packed.body_for_computing(model, self.parameters, trains, self.dtype, joined)
        return self.frozen_body[joined] | of_trained

    def lstm_logits(self, model: LSTM, inputs: PackedSequences) -> Iterator[Float[Tensor, "query vocab"]]:
        """Seed by seed: the fused kernel knows one network."""
        for index in range(self.count):
            parameters = self.parameters_of(index)
            weights = model.weights(parameters)
            if weights[0].device.type == "cuda":
                if self.blocks is None:
                    self.blocks = [lstm.block_for(model, weights, self.dtype) for _ in range(self.count)]
                weights = lstm.InOneBlock.apply(self.blocks[index], *weights)
            yield lstm.packed_logits(model, parameters, weights, inputs)


def gradients_of(values: Tensor, by_values: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gradients of those leaves that the values depend on."""
    found = torch.autograd.grad(values, list(leaves.values()), by_values, allow_unused=True)
    return {name: gradient for name, gradient in zip(leaves, found, strict=True) if gradient is not None}


def losses(logits: Float[Tensor, "seed query vocab"], answers: Answers) -> Float[Tensor, " seed"]:
    """Each seed's mean over scored positions."""
    return (losses_of_each(logits, answers) * answers.weight).sum(dim=-1) / answers.weight.sum()


def losses_of_each(logits: Float[Tensor, "seed query vocab"], answers: Answers) -> Float[Tensor, "seed query"]:
    """Cross-entropy, or KL divergence from a target's distribution."""
    if answers.target_log_probs is None:
        goal = answers.targets.expand(len(logits), -1).flatten()
        return F.cross_entropy(logits.flatten(0, 1), goal, reduction="none").view(len(logits), -1)
    goal = answers.target_log_probs
    return (goal.exp() * (goal - logits.log_softmax(dim=-1))).sum(dim=-1)


@torch.no_grad()
def predict(
    population: Population,
    batch: Batch,
    rows_at_once: int | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Each seed's argmax at scored positions (0 elsewhere), as (seed, batch, seq), and its loss.

    `on_rows` is told how many rows are done.
    """
    seeds, width = len(population.seeds), batch.tokens.shape[1]
    predictions = torch.zeros((seeds, batch.tokens.numel()), dtype=torch.int64, device=batch.tokens.device)
    total = torch.zeros(seeds, device=batch.tokens.device)
    for start, part in in_parts(population, batch, rows_at_once):
        with population.precision.in_matrix_products():
            work = whole(population.model, population.sizes.vocab_size, part)
            logits = population.logits(work)
        is_scored = work.answers.weight > 0
        places = work.answers.places[is_scored] + start * width
        predictions[:, places] = logits.argmax(dim=-1)[:, is_scored]
        total += losses(logits, work.answers) * len(places)
        if on_rows is not None:
            on_rows(start + len(part))
    return predictions.view(seeds, *batch.tokens.shape), total / batch.scored.sum()


@torch.no_grad()
def scored_losses(
    population: Population, batch: Batch, rows_at_once: int | None = None
) -> Float[Tensor, "seed scored"]:
    """Each seed's loss at every scored position, row by row, as training computes it."""
    found = torch.zeros((len(population.seeds), batch.tokens.numel()), device=batch.tokens.device)
    for start, part in in_parts(population, batch, rows_at_once):
        with population.precision.in_matrix_products():
            work = whole(population.model, population.sizes.vocab_size, part)
            each = losses_of_each(population.logits(work), work.answers)
        is_scored = work.answers.weight > 0
        found[:, work.answers.places[is_scored] + start * batch.tokens.shape[1]] = each[:, is_scored]
    return found[:, batch.scored.flatten()]


def in_parts(population: Population, batch: Batch, rows_at_once: int | None) -> Iterator[tuple[int, Batch]]:
    """Parts of a batch that are evaluated at once, each with its first row."""
    if rows_at_once is None:
        logits_of_row = len(population.seeds) * population.sizes.vocab_size * int(batch.scored.sum(dim=1).max())
        by_tokens = max(ROWS_EVALUATED_AT_ONCE, TOKENS_EVALUATED_AT_ONCE // batch.tokens.shape[1])
        rows_at_once = max(1, min(by_tokens, LOGITS_EVALUATED_AT_ONCE // logits_of_row))
    for start in range(0, len(batch), rows_at_once):
        yield start, batch[start : start + rows_at_once]
