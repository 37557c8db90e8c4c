"""Many seeds of one model, computed together. Only parameters have a seed axis; all seeds share the batch."""

from collections.abc import Callable, Iterator, Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from icecore.models import Model, ModelDims, ParameterSpec, initialize, trained_names
from icecore.models.engines import Engine, ModelBatch, Targets
from icecore.models.engines.chunked_loss import chunked_cross_entropy
from icecore.tasks import Batch
from icecore.training.batches import prepare_batch
from icecore.training.precision import Precision
from icecore.training.rank import EmbeddingRank, Restricted, restricted

CHANNELS_AT_ONCE = {"cpu": 384, "cuda": 1536}  # width x seeds per pass: more only takes more memory
ROWS_EVALUATED_AT_ONCE = 500
TOKENS_EVALUATED_AT_ONCE = 2**14  # at least: short sequences get more rows, 262,144 pairs take 32 parts
LOGITS_EVALUATED_AT_ONCE = 2**26

Initial = Callable[[int], Mapping[str, Tensor]]  # from a seed to its initial parameters, on any device


class Population:
    """Stacked parameters of several seeds, in two dicts: `trained` and `frozen`.

    Trained parameters are views of two flat vectors per seed, `values[True]` with weight decay and `values[False]`
    without, so that clipping and the optimizer see one tensor each. If a trained body computes in another dtype,
    `rounded` holds these vectors in that dtype.

    Embeddings of low rank have coordinates among `trained`; `expanded` holds the matrices that they give.
    """

    def __init__(
        self,
        model: Model,
        dims: ModelDims,
        seeds: tuple[int, ...],
        trainable: str,
        device: torch.device,
        precision: Precision = Precision.fp32,
        dtype: torch.dtype = torch.float32,
        initial: Initial | None = None,
        engine: type[Engine] | None = None,
        rank: EmbeddingRank | Restricted | None = None,
    ) -> None:
        self.model, self.dims, self.seeds = model, dims, seeds
        self.trainable, self.device, self.precision = trainable, device, precision
        self.engine = engine or model.engine
        self.specs = model.specs(dims)
        names = trained_names(model, dims, trainable)
        initial = initial or (lambda seed: initialize(model, dims, seed))
        each = [initial(seed) for seed in seeds]
        stacked = {name: torch.stack([one[name] for one in each]).to(device, dtype) for name in self.specs}
        self.frozen = {name: value for name, value in stacked.items() if name not in names}
        self.restricted = restricted(rank, model, dims, seeds, stacked) if isinstance(rank, EmbeddingRank) else rank
        self.expanded: dict[str, Tensor] = {}
        self.trained_specs = {name: self.specs[name] for name in names}
        if self.restricted is not None:
            names = self.restrict(self.restricted, stacked)
        self.values: dict[bool, Tensor] = {}
        self.rounded: dict[bool, Tensor] = {}
        self.trained: dict[str, Tensor] = {}
        body_type = dtype if dtype == torch.float64 else precision.dtype
        computed_rounded = {name for name in names if body_type != dtype and self.engine.computes_rounded(name)}
        leaves: dict[str, Tensor] = {}
        copies: dict[str, Tensor] = {}
        self.names = {
            decays: [name for name in names if self.trained_specs[name].decays is decays] for decays in (True, False)
        }
        for decays, members in self.names.items():
            if members:
                self.values[decays] = torch.cat([stacked[name].flatten(1) for name in members], dim=1)
                self.trained |= self.parts_of(self.values[decays], decays)
                leaves |= self.parts_of(self.values[decays], decays)
            if computed_rounded & set(members):
                self.rounded[decays] = self.values[decays].to(body_type)
                copies |= self.parts_of(self.rounded[decays], decays)
                leaves |= {name: copies[name] for name in members if name in computed_rounded}
        leaves = {name: value for name, value in leaves.items() if name in self.specs} | self.expanded
        at_once = max(1, CHANNELS_AT_ONCE[device.type] // model.width)
        self.groups = [
            Group(self, leaves, copies, slice(begin, begin + at_once), body_type)
            for begin in range(0, len(seeds), at_once)
        ]

    def parts_of(self, values: Float[Tensor, "seed value"], decays: bool) -> dict[str, Float[Tensor, "seed ..."]]:
        """Return views of flat vectors, such as `values[decays]`, by parameter."""
        specs = [self.trained_specs[name] for name in self.names[decays]]
        parts = values.split([spec.size for spec in specs], dim=1)
        return {
            name: part.unflatten(1, spec.shape)
            for name, part, spec in zip(self.names[decays], parts, specs, strict=True)
        }

    def restrict(self, rank: Restricted, stacked: dict[str, Tensor]) -> list[str]:
        """Put the coordinates of restricted embeddings in their place; return the names of all that trains."""
        stacked |= rank.coordinates
        self.expanded = {name: value.clone() for name, value in rank.expand(rank.coordinates).items()}
        kept = {name: spec for name, spec in self.trained_specs.items() if name not in rank.names}
        role = self.specs[rank.names[0]].role
        own = {name: ParameterSpec(tuple(value.shape[1:]), role) for name, value in rank.coordinates.items()}
        self.trained_specs = own | kept
        return list(self.trained_specs)

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Set the parameters named in `tensors`."""
        for name, value in {**self.trained, **self.frozen}.items():
            if name in tensors:
                value.copy_(tensors[name])
        self.follow()
        for group in self.groups:
            group.network.reload()

    @torch.no_grad()
    def follow(self) -> None:
        """Update what is computed from the values, after they were set."""
        for decays, rounded in self.rounded.items():
            rounded.copy_(self.values[decays])
        self.expand()

    @torch.no_grad()
    def expand(self) -> None:
        """Update the embeddings of low rank."""
        if self.restricted is not None:
            for name, value in self.restricted.expand(self.trained).items():
                self.expanded[name].copy_(value)

    @property
    def whole(self) -> dict[str, Float[Tensor, "seed ..."]]:
        """Return the model's parameters, stacked by seed."""
        every = {**self.trained, **self.expanded, **self.frozen}
        return {name: every[name] for name in self.specs}

    def parameters(self, index: int) -> dict[str, Tensor]:
        """Return one seed's parameters; change them only with `load`."""
        return {name: value[index] for name, value in self.whole.items()}

    def copy(self, trainable: str | None = None, engine: type[Engine] | None = None) -> "Population":
        """Return a copy with the same parameters, but another trainable set or engine."""
        of_seed = {seed: self.parameters(index) for index, seed in enumerate(self.seeds)}
        dtype = next(iter(self.trained.values())).dtype
        return Population(
            self.model,
            self.dims,
            self.seeds,
            trainable or self.trainable,
            self.device,
            self.precision,
            dtype,
            initial=of_seed.__getitem__,
            engine=engine or self.engine,
            rank=None if self.restricted is None else self.restricted.at(self.trained),
        )

    def prepare(self, batch: Batch) -> ModelBatch:
        """Prepare a whole batch as one step of this population's engine."""
        return prepare_batch(self.engine, self.dims.vocab_size, batch)

    def logits(self, batch: ModelBatch) -> Float[Tensor, "seed query vocab"]:
        """Return each seed's logits at the scored positions."""
        return torch.cat([group.network.logits(batch.inputs) for group in self.groups])


class Group:
    """Seeds computed in one pass: all seeds of a narrow model, one of a wide model.

    `leaves` are the trained parameters in the compute dtype: the values or their rounded copies.
    """

    def __init__(
        self,
        population: Population,
        leaves: Mapping[str, Tensor],
        copies: Mapping[str, Tensor],
        seeds: slice,
        dtype: torch.dtype,
    ) -> None:
        self.seeds = seeds
        self.restricted = None if population.restricted is None else population.restricted.of(seeds)
        self.coordinates = {name: value[seeds] for name, value in population.trained.items()}
        self.leaves = {name: value[seeds].detach().requires_grad_() for name, value in leaves.items()}
        frozen = {name: value[seeds] for name, value in population.frozen.items()}
        self.network = population.engine(population.model, {**self.leaves, **frozen}, dtype)
        rounded = copies.get(self.network.unembedding or "")
        self.rounded_unembed = None if rounded is None else rounded[seeds]

    def losses_and_gradients(
        self, batch: ModelBatch, share: Float[Tensor, ""] | None = None
    ) -> tuple[Float[Tensor, " seed"], dict[str, Tensor]]:
        """Return each seed's mean loss over scored positions, times `share`, and the gradients of what trains."""
        loss, gradients = self.losses_and_gradients_of_leaves(batch, share)
        if self.restricted is not None:
            with torch.no_grad():
                gradients = self.restricted.pull_back(gradients, self.coordinates)
        return loss, gradients

    def losses_and_gradients_of_leaves(
        self, batch: ModelBatch, share: Float[Tensor, ""] | None
    ) -> tuple[Float[Tensor, " seed"], dict[str, Tensor]]:
        """Return the losses and the gradients of the leaves used.

        If the engine names its unembedding, logits are computed in chunks of positions.
        """
        network, targets = self.network, batch.targets
        if network.unembedding is not None and targets.log_probs is None:
            return self.chunked(network.unembedding, batch, share)
        loss = losses(network.logits(batch.inputs), targets)
        loss = loss if share is None else loss * share
        return loss.detach(), gradients_of(loss, torch.ones_like(loss), self.leaves)

    def chunked(
        self, unembedding: str, batch: ModelBatch, share: Float[Tensor, ""] | None
    ) -> tuple[Float[Tensor, " seed"], dict[str, Tensor]]:
        hidden, unembed = self.network.hidden(batch.inputs), self.network.parameters[unembedding]
        weight = batch.targets.weight.to(unembed.dtype)
        weight = weight / weight.sum() if share is None else weight * (share / weight.sum())
        rounded = self.rounded_unembed if hidden.dtype != unembed.dtype else None
        found = chunked_cross_entropy(hidden, unembed, batch.targets.tokens, weight, rounded)
        gradients = {} if found.by_unembed is None else {unembedding: found.by_unembed}
        if found.by_hidden is not None:
            before = {name: leaf for name, leaf in self.leaves.items() if name != unembedding}
            gradients |= gradients_of(hidden, found.by_hidden, before)
        return found.loss, gradients


def gradients_of(values: Tensor, by_values: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradients of the leaves that the values depend on."""
    found = torch.autograd.grad(values, list(leaves.values()), by_values, allow_unused=True)
    return {name: gradient for name, gradient in zip(leaves, found, strict=True) if gradient is not None}


def losses(logits: Float[Tensor, "seed query vocab"], targets: Targets) -> Float[Tensor, " seed"]:
    """Return each seed's mean loss over scored positions."""
    return (losses_of_each(logits, targets) * targets.weight).sum(dim=-1) / targets.weight.sum()


def losses_of_each(logits: Float[Tensor, "seed query vocab"], targets: Targets) -> Float[Tensor, "seed query"]:
    """Return the cross-entropy, or the KL divergence from a target distribution, at each scored position."""
    if targets.log_probs is None:
        goal = targets.tokens.expand(len(logits), -1).flatten()
        return F.cross_entropy(logits.flatten(0, 1), goal, reduction="none").view(len(logits), -1)
    goal = targets.log_probs
    return (goal.exp() * (goal - logits.log_softmax(dim=-1))).sum(dim=-1)


@torch.no_grad()
def predict(
    population: Population,
    batch: Batch,
    rows_at_once: int | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return each seed's argmax at scored positions (0 elsewhere), as (seed, batch, seq), and its loss.

    `on_rows` is called with the number of rows done.
    """
    seeds, width = len(population.seeds), batch.tokens.shape[1]
    predictions = torch.zeros((seeds, batch.tokens.numel()), dtype=torch.int64, device=batch.tokens.device)
    total = torch.zeros(seeds, device=batch.tokens.device)
    for start, part in in_chunks(population, batch, rows_at_once):
        with population.precision.in_matrix_products():
            prepared = population.prepare(part)
            logits = population.logits(prepared)
        targets = prepared.targets
        is_scored = targets.weight > 0
        places = targets.flat_indices[is_scored] + start * width
        predictions[:, places] = logits.argmax(dim=-1)[:, is_scored]
        total += losses(logits, targets) * len(places)
        if on_rows is not None:
            on_rows(start + len(part))
    return predictions.view(seeds, *batch.tokens.shape), total / batch.scored.sum()


@torch.no_grad()
def scored_losses(
    population: Population, batch: Batch, rows_at_once: int | None = None
) -> Float[Tensor, "seed scored"]:
    """Return each seed's loss at every scored position, row by row, as training computes it."""
    found = torch.zeros((len(population.seeds), batch.tokens.numel()), device=batch.tokens.device)
    for start, part in in_chunks(population, batch, rows_at_once):
        with population.precision.in_matrix_products():
            prepared = population.prepare(part)
            each = losses_of_each(population.logits(prepared), prepared.targets)
        is_scored = prepared.targets.weight > 0
        places = prepared.targets.flat_indices[is_scored] + start * batch.tokens.shape[1]
        found[:, places] = each[:, is_scored]
    return found[:, batch.scored.flatten()]


def in_chunks(population: Population, batch: Batch, rows_at_once: int | None) -> Iterator[tuple[int, Batch]]:
    """Yield the parts of a batch to evaluate at once, each with the index of its first row."""
    if rows_at_once is None:
        logits_of_row = len(population.seeds) * population.dims.vocab_size * int(batch.scored.sum(dim=1).max())
        by_tokens = max(ROWS_EVALUATED_AT_ONCE, TOKENS_EVALUATED_AT_ONCE // batch.tokens.shape[1])
        rows_at_once = max(1, min(by_tokens, LOGITS_EVALUATED_AT_ONCE // logits_of_row))
    for start in range(0, len(batch), rows_at_once):
        yield start, batch[start : start + rows_at_once]
