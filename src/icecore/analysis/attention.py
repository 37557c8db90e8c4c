"""What heads look at: attention maps of any prompt, and the two steps of induction in the needle task."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from icecore.analysis.moments import in_parts
from icecore.errors import InputError, require
from icecore.models import Parameters, Transformer
from icecore.tasks import Batch, Needle


@dataclass(frozen=True)
class Head:
    """A head and its score; layers and heads are counted from 1, as in the paper."""

    layer: int
    head: int
    score: float


@dataclass(frozen=True)
class Induction:
    """Mean attention, by layer and head, and what a head that looks everywhere alike would have."""

    value_to_marker: Float[Tensor, "layer head"]
    query_to_value: Float[Tensor, "layer head"]
    value_to_marker_uniform: float
    query_to_value_uniform: float

    @staticmethod
    def best(scores: Float[Tensor, "layer head"]) -> Head:
        """The head with the largest score."""
        where = int(scores.argmax())
        layer, head = divmod(where, scores.shape[1])
        return Head(layer + 1, head + 1, float(scores.flatten()[where]))


@torch.no_grad()
def attention_maps(
    model: Transformer, parameters: Parameters, prompt: Sequence[int]
) -> Float[Tensor, "layer head query key"]:
    """Where each token of a prompt looks."""
    require_softmax(model)
    tokens = torch.tensor([list(prompt)], device=parameters["token"].device)
    values = model.trace(parameters, tokens)
    return torch.stack([attention_of(model, values, layer)[0] for layer in range(model.layers)])


@torch.no_grad()
def induction_scores(
    model: Transformer, parameters: Parameters, task: Needle, batches: Batch | Iterable[Batch]
) -> Induction:
    """Attention from every value to its marker, and from the query to its value, over needle items."""
    require_softmax(model)
    device = parameters["token"].device
    to_marker = torch.zeros((model.layers, model.heads), dtype=torch.float64, device=device)
    to_value, uniform = to_marker.clone(), torch.zeros(2, dtype=torch.float64, device=device)
    pairs = items = 0
    for batch in in_parts(batches) if isinstance(batches, Batch) else batches:
        rows = batch.to(device)
        query = rows.lengths - 1  # the markers stand before it at even places, each before its value
        asked = rows.tokens.gather(1, query[:, None]) - (task.first_query - task.first_marker)
        column = torch.arange(rows.tokens.shape[1], device=device)
        is_marker = (column % 2 == 0) & (column < query[:, None])
        value_of_asked = (is_marker & (rows.tokens == asked)).int().argmax(dim=1) + 1
        row, place = (is_marker.roll(1, dims=1) & (column % 2 == 1)).nonzero(as_tuple=True)
        each = torch.arange(len(rows), device=device)
        values = model.trace(parameters, rows.tokens)
        for layer in range(model.layers):
            attention = attention_of(model, values, layer)
            to_marker[layer] += attention[row, :, place, place - 1].double().sum(dim=0)
            to_value[layer] += attention[each, :, query, value_of_asked].double().sum(dim=0)
        uniform += torch.stack([(1 / (place + 1).double()).sum(), (1 / (query + 1).double()).sum()])
        pairs += len(row)
        items += len(rows)
    return Induction(to_marker / pairs, to_value / items, float(uniform[0]) / pairs, float(uniform[1]) / items)


def attention_of(model: Transformer, values: Mapping[str, Tensor], layer: int) -> Float[Tensor, "batch head query key"]:
    name = f"block{layer}.attention"
    require(name in values, f"{model.name} tells its hook of no {name}: there is no attention to look at")
    return values[name]


def require_softmax(model: Transformer) -> None:
    if model.attention != "softmax":
        raise InputError(f"{model.attention} attention has no map: every token looks alike at all before it")
