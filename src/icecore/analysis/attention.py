"""Attention maps of a prompt, their overlap in two networks, and scores of heads, such as needle's induction steps."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from icecore.analysis.evaluation import chunks_of
from icecore.analysis.moments import in_chunks
from icecore.errors import require
from icecore.models import Model, Parameters, device_of, traced
from icecore.tasks import Batch, Needle, Task


@dataclass(frozen=True)
class Head:
    """A head and its score; layers and heads count from 1, as in the paper."""

    layer: int
    head: int
    score: float


@dataclass(frozen=True)
class Induction:
    """Mean attention by layer and head, and that of a uniform head."""

    value_to_marker: Float[Tensor, "layer head"]
    query_to_value: Float[Tensor, "layer head"]
    value_to_marker_uniform: float
    query_to_value_uniform: float

    @staticmethod
    def best(scores: Float[Tensor, "layer head"]) -> Head:
        """Return the head with the largest score."""
        where = int(scores.argmax())
        layer, head = divmod(where, scores.shape[1])
        return Head(layer + 1, head + 1, float(scores.flatten()[where]))


@torch.no_grad()
def attention_maps(
    model: Model, parameters: Parameters, prompt: Sequence[int]
) -> Float[Tensor, "layer head query key"]:
    """Return the attention maps of a prompt."""
    maps = maps_of(model)
    values = traced(model, parameters, torch.tensor([list(prompt)], device=device_of(parameters)), maps)
    return torch.stack([values[name][0] for name in maps])


@torch.no_grad()
def induction_scores(model: Model, parameters: Parameters, task: Needle, batches: Batch | Iterable[Batch]) -> Induction:
    """Measure attention from every value to its marker, and from the query to its value, over needle items."""
    maps, device = maps_of(model), device_of(parameters)
    to_marker: dict[str, Tensor] = {}
    to_value: dict[str, Tensor] = {}
    uniform = torch.zeros(2, dtype=torch.float64, device=device)
    pairs = items = 0
    for batch in in_chunks(batches) if isinstance(batches, Batch) else batches:
        rows = batch.to(device)
        query = rows.lengths - 1  # markers are at even positions before it, each followed by its value
        asked = rows.tokens.gather(1, query[:, None]) - (task.first_query - task.first_marker)
        column = torch.arange(rows.tokens.shape[1], device=device)
        is_marker = (column % 2 == 0) & (column < query[:, None])
        value_of_asked = (is_marker & (rows.tokens == asked)).int().argmax(dim=1) + 1
        row, place = (is_marker.roll(1, dims=1) & (column % 2 == 1)).nonzero(as_tuple=True)
        each = torch.arange(len(rows), device=device)
        values = traced(model, parameters, rows.tokens, maps)
        for name in maps:
            attention = values[name]  # (batch, head, query, key)
            to_marker[name] = to_marker.get(name, 0) + attention[row, :, place, place - 1].double().sum(dim=0)
            to_value[name] = to_value.get(name, 0) + attention[each, :, query, value_of_asked].double().sum(dim=0)
        uniform += torch.stack([(1 / (place + 1).double()).sum(), (1 / (query + 1).double()).sum()])
        pairs += len(row)
        items += len(rows)
    marker_sums, value_sums = (torch.stack([each[name] for name in maps]) for each in (to_marker, to_value))
    return Induction(marker_sums / pairs, value_sums / items, float(uniform[0]) / pairs, float(uniform[1]) / items)


@torch.no_grad()
def attention_overlap(model: Model, first: Parameters, second: Parameters, batch: Batch) -> Float[Tensor, "layer head"]:
    """Return the mean share of attention that each head of two networks puts on the same keys; 1 if they are equal."""
    maps = maps_of(model)

    def shared(rows: Batch) -> list[Tensor]:
        values = [traced(model, parameters, rows.tokens, maps) for parameters in (first, second)]
        return [torch.minimum(*(each[name] for each in values)).sum(dim=3) for name in maps]

    return mean_of_queries(model, shared, batch.to(device_of(first)))


@torch.no_grad()
def to_token_before(model: Model, parameters: Parameters, batch: Batch) -> Float[Tensor, "layer head"]:
    """Return each head's mean attention to the token before."""
    maps = maps_of(model)

    def before(rows: Batch) -> list[Tensor]:
        values = traced(model, parameters, rows.tokens, maps)
        return [F.pad(values[name].diagonal(offset=-1, dim1=2, dim2=3), (1, 0)) for name in maps]

    return mean_of_queries(model, before, batch.to(device_of(parameters)))


def mean_of_queries(
    model: Model, measure: Callable[[Batch], Sequence[Tensor]], batch: Batch
) -> Float[Tensor, "layer head"]:
    """Return the mean of numbers (batch, head, query) per layer over all queries that are read, but the first.

    The first query sees only itself.
    """
    sums, queries = torch.zeros(0), 0
    for _, rows in chunks_of(model, batch):
        asks = is_asked(rows)
        found = torch.stack([(each * asks[:, None]).double().sum(dim=(0, 2)) for each in measure(rows)])
        sums = found if queries == 0 else sums + found
        queries += int(asks.sum())
    return sums / max(1, queries)


def is_asked(rows: Batch) -> Bool[Tensor, "batch query"]:
    column = torch.arange(rows.tokens.shape[1], device=rows.tokens.device)
    return (column > 0) & (column < rows.lengths[:, None])


@dataclass(frozen=True)
class HeadScores:
    """Mean attention of each head to certain keys, and that of a uniform head."""

    of_heads: list[list[float]]  # by layer
    uniform: float


def head_scores(model: Model, parameters: Parameters, task: Task, batch: Batch) -> dict[str, HeadScores]:
    """Return scores of the heads by name: attention to the token before; for needle, also both steps of induction."""
    queries = is_asked(batch).nonzero()[:, 1]
    uniform = float((1 / (queries + 1).double()).mean()) if len(queries) else 0.0
    found = {"token to the one before": HeadScores(to_token_before(model, parameters, batch).tolist(), uniform)}
    if isinstance(task, Needle):
        steps = induction_scores(model, parameters, task, batch)
        found["value to its marker"] = HeadScores(steps.value_to_marker.tolist(), steps.value_to_marker_uniform)
        found["query to its value"] = HeadScores(steps.query_to_value.tolist(), steps.query_to_value_uniform)
    return found


def maps_of(model: Model) -> list[str]:
    """Return the names of the model's attention maps, one per layer."""
    names = [name for name in model.activations if name.endswith(".attention")]
    require(bool(names), f"{model.name} with these settings has no attention maps")
    return names
