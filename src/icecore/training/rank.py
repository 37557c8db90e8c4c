"""Embeddings of low rank: their trained coordinates, gradients, and the embeddings they define.

A model never knows: engines, analyses and export see whole matrices, which are computed anew after every step.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from icecore.errors import InputError, require, require_choices, unknown_name
from icecore.models import Model, ModelDims, Parameters, ParameterSpec
from icecore.seeding import make_generator
from icecore.training.precision import Precision

RankBasis = Literal["random", "learned", "subspace", "body"]
BASES: tuple[RankBasis, ...] = get_args(RankBasis)
ROLES = ("token", "position", "unembed")
TOGETHER = "embeddings"  # coordinates of a subspace of all restricted embeddings together


@dataclass(frozen=True)
class EmbeddingRank:
    """Embeddings E = A P with A of `rank` columns. They start as the usual ones projected onto P, with their norm.

    random    P is drawn from the seed, with orthonormal rows, one per matrix, and fixed
    learned   P starts so and trains too: only the rank is limited
    subspace  not a rank: all restricted matrices together move in a random subspace around their start, with as many
              numbers. SOURCE: Li et al. 2018, arXiv 1804.08838
    body      P is fixed to what the body reads and writes most: the top right singular vectors of the first layer's
              Q K^T for tokens and positions, the top left ones of the last output projection of the MLP for U

    Weight decay shrinks A, and P if it is learned; it shrinks nothing of a subspace.
    """

    rank: int
    basis: RankBasis = "random"
    of: tuple[str, ...] = ROLES

    def __post_init__(self) -> None:
        require(type(self.rank) is int and self.rank >= 1, f"embedding_rank must be at least 1, got {self.rank}")
        require_choices(self)
        require(bool(self.of), f"rank_of names no embeddings: choose of {', '.join(ROLES)}")
        for role in self.of:
            if role not in ROLES:
                raise unknown_name("embeddings in rank_of", role, ROLES)

    def as_json(self) -> dict[str, Any]:
        return {"rank": self.rank, "basis": self.basis, "of": [role for role in ROLES if role in self.of]}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "EmbeddingRank":
        return EmbeddingRank(value["rank"], value["basis"], tuple(value["of"]))

    def names(self, model: Model, dims: ModelDims) -> list[str]:
        """Return the restricted matrices; raise unless the model has them and they are wide enough."""
        specs = model.specs(dims)
        found = [name for name, spec in specs.items() if spec.role in self.of and len(spec.shape) == 2]
        has = [role for role in self.of if any(specs[name].role == role for name in found)]
        for role in self.of:
            require(role in has, f"{model.name} has no {role} embeddings: give --rank-of {','.join(has or ROLES)}")
        width = min(specs[name].shape[1] for name in found)
        require(self.rank <= width, f"embedding_rank must be at most the width, {width}, got {self.rank}")
        if self.basis == "body":
            for name in bases_in(model, specs, found).values():
                require(name in specs, f"{model.name} has no {name}, so --rank-basis body is not defined: use random")
        return found

    def specs(self, model: Model, dims: ModelDims) -> dict[str, ParameterSpec]:
        """Return what trains instead of the restricted matrices."""
        specs, names = model.specs(dims), self.names(model, dims)
        if self.basis == "subspace":
            rows = sum(specs[name].shape[0] for name in names)
            return {f"{TOGETHER}.coordinates": ParameterSpec((rows * self.rank,), specs[names[0]].role)}
        found: dict[str, ParameterSpec] = {}
        for name in names:
            (rows, width), role, shrinks = specs[name].shape, specs[name].role, specs[name].is_shrunk
            found[f"{name}.coordinates"] = ParameterSpec((rows, self.rank), role, is_shrunk=shrinks)
            if self.basis == "learned":
                found[f"{name}.basis"] = ParameterSpec((self.rank, width), role, is_shrunk=shrinks)
        return found

    def start(self, model: Model, dims: ModelDims, seed: int, initial: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return a seed's initial parameters with restricted embeddings of the same norm."""
        if self.basis == "subspace":
            return dict(initial)
        found = dict(initial)
        for name in self.names(model, dims):
            basis = self.basis_of(model, name, seed, initial)
            inside = initial[name] @ basis.T @ basis
            found[name] = inside * (initial[name].norm() / inside.norm())
        return found

    def basis_of(self, model: Model, name: str, seed: int, parameters: Parameters) -> Float[Tensor, "rank width"]:
        """Return a matrix's basis, with orthonormal rows, on the CPU."""
        if self.basis == "body":
            return body_basis(model, name, parameters)[: self.rank]
        width = parameters[name].shape[1]
        drawn = torch.randn((width, self.rank), generator=make_generator(seed, "rank", name), dtype=torch.float64)
        return torch.linalg.qr(drawn).Q.T.float().contiguous()


def bases_in(model: Model, specs: Mapping[str, ParameterSpec], names: Sequence[str]) -> dict[str, str]:
    """Return the matrix of the body whose singular vectors are each embedding's basis; for Q K^T, its Q."""
    last = f"block{getattr(model, 'layers', 1) - 1}.mlp_out.weight"
    return {name: last if specs[name].role == "unembed" else "block0.q.weight" for name in names}


def body_basis(model: Model, name: str, parameters: Parameters) -> Float[Tensor, "width width"]:
    """Return the singular vectors of the matrix by which the body reads or writes, the largest first."""
    matrix = bases_in(model, model.specs(ModelDims(3, 3)), [name])[name]
    if not matrix.endswith(".q.weight"):
        return torch.linalg.svd(parameters[matrix].double(), full_matrices=False).U.T.float().contiguous()
    query, key = (parameters[f"block0.{part}.weight"].double() for part in ("q", "k"))
    if key.shape != query.shape:
        raise InputError(f"{model.name} shares keys among heads, so --rank-basis body is not defined: use random")
    return torch.linalg.svd(query.T @ key).Vh.float().contiguous()


@dataclass
class Restricted:
    """Restricted embeddings of several seeds: coordinates, by name, and what is fixed. All are stacked by seed."""

    names: list[str]
    coordinates: dict[str, Tensor]
    fixed: dict[str, Tensor] = field(default_factory=dict)

    def expand(self, coordinates: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the embeddings that these coordinates give."""
        with Precision.fp32.in_matrix_products():
            return {name: coordinates[f"{name}.coordinates"] @ self.basis(name, coordinates) for name in self.names}

    def basis(self, name: str, coordinates: Mapping[str, Tensor]) -> Float[Tensor, "seed rank width"]:
        own = f"{name}.basis"
        return coordinates[own] if own in coordinates else self.fixed[own]

    def pull_back(self, gradients: Mapping[str, Tensor], coordinates: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the gradients of the coordinates, from those of the embeddings, and the other gradients."""
        found = {name: value for name, value in gradients.items() if name not in self.names}
        with Precision.fp32.in_matrix_products():
            for name in self.names:
                if name in gradients:
                    basis, own = self.basis(name, coordinates), f"{name}.coordinates"
                    found[own] = gradients[name] @ basis.transpose(1, 2)
                    if f"{name}.basis" in coordinates:
                        found[f"{name}.basis"] = coordinates[own].transpose(1, 2) @ gradients[name]
        return found

    def of(self, seeds: slice) -> "Restricted":
        """Return the part of some seeds."""
        parts = ({name: value[seeds] for name, value in each.items()} for each in (self.coordinates, self.fixed))
        return type(self)(self.names, *parts)

    def at(self, coordinates: Mapping[str, Tensor]) -> "Restricted":
        """Return the same restriction at other coordinates."""
        return type(self)(self.names, {name: coordinates[name].clone() for name in self.coordinates}, self.fixed)


class InSubspace(Restricted):
    """All restricted embeddings together: their start plus a random orthogonal map of the coordinates.

    The map scatters coordinates, flips signs, mixes by Hadamard's matrix, permutes, flips and mixes again: nearly a
    Gaussian matrix, without its memory. SOURCE: the structured transforms of arXiv 1804.08838.
    """

    def expand(self, coordinates: Mapping[str, Tensor]) -> dict[str, Tensor]:
        fixed, z = self.fixed, coordinates[f"{TOGETHER}.coordinates"]
        mixed = z.new_zeros(fixed["signs"].shape).scatter(1, fixed["places"], z)
        mixed = hadamard(mixed * fixed["signs"]).gather(1, fixed["order"])
        mixed = hadamard(mixed * fixed["more_signs"]) * self.scale
        return {
            name: fixed[f"{name}.start"] + part.view_as(fixed[f"{name}.start"])
            for name, part in zip(self.names, mixed[:, : self.size].split(self.sizes, dim=1), strict=True)
        }

    def pull_back(self, gradients: Mapping[str, Tensor], coordinates: Mapping[str, Tensor]) -> dict[str, Tensor]:
        found = {name: value for name, value in gradients.items() if name not in self.names}
        z = coordinates[f"{TOGETHER}.coordinates"]
        fixed, mixed = self.fixed, z.new_zeros(self.fixed["signs"].shape)
        begin = 0
        for name, size in zip(self.names, self.sizes, strict=True):
            if name in gradients:
                mixed[:, begin : begin + size] = gradients[name].flatten(1)
            begin += size
        mixed = hadamard(mixed * self.scale) * fixed["more_signs"]
        mixed = hadamard(torch.zeros_like(mixed).scatter(1, fixed["order"], mixed)) * fixed["signs"]
        return found | {f"{TOGETHER}.coordinates": mixed.gather(1, fixed["places"])}

    @property
    def sizes(self) -> list[int]:
        return [self.fixed[f"{name}.start"][0].numel() for name in self.names]

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def scale(self) -> float:
        """Return the factor that makes the map's columns have norm 1 on average: the padding is cut off."""
        return math.sqrt(self.fixed["signs"].shape[1] / self.size)


def hadamard(x: Float[Tensor, "seed size"]) -> Float[Tensor, "seed size"]:
    """Multiply by Hadamard's matrix, scaled to be orthogonal; the size must be a power of 2."""
    seeds, size = x.shape
    step = 1
    while step < size:
        first, second = x.view(seeds, -1, 2, step).unbind(dim=2)
        x = torch.stack([first + second, first - second], dim=2).view(seeds, size)
        step *= 2
    return x / math.sqrt(size)


def restricted(
    rank: EmbeddingRank, model: Model, dims: ModelDims, seeds: Sequence[int], stacked: Mapping[str, Tensor]
) -> Restricted:
    """Return the restriction of embeddings that start as `EmbeddingRank.start` gives them."""
    names = rank.names(model, dims)
    device, dtype = stacked[names[0]].device, stacked[names[0]].dtype
    if rank.basis == "subspace":
        return in_subspace(rank, model, dims, seeds, {name: stacked[name] for name in names})
    coordinates, fixed = {}, {}
    of_body = ("block0.k.weight", *bases_in(model, model.specs(dims), names).values())
    read = [*names, *(of_body if rank.basis == "body" else ())]
    for name in names:
        each = [
            rank.basis_of(model, name, seed, {key: stacked[key][index].cpu() for key in read})
            for index, seed in enumerate(seeds)
        ]
        basis = torch.stack(each).to(device, dtype)
        coordinates[f"{name}.coordinates"] = stacked[name] @ basis.transpose(1, 2)
        (coordinates if rank.basis == "learned" else fixed)[f"{name}.basis"] = basis
    return Restricted(names, coordinates, fixed)


def in_subspace(
    rank: EmbeddingRank, model: Model, dims: ModelDims, seeds: Sequence[int], starts: Mapping[str, Tensor]
) -> InSubspace:
    names = list(starts)
    count = rank.specs(model, dims)[f"{TOGETHER}.coordinates"].size
    size = 2 ** math.ceil(math.log2(sum(value[0].numel() for value in starts.values())))
    fixed: dict[str, list[Tensor]] = {name: [] for name in ("places", "signs", "order", "more_signs")}
    for seed in seeds:
        generator = make_generator(seed, "rank", TOGETHER)
        fixed["places"].append(torch.randperm(size, generator=generator)[:count])
        for name in ("signs", "more_signs"):
            fixed[name].append(torch.randint(2, (size,), generator=generator) * 2.0 - 1)
        fixed["order"].append(torch.randperm(size, generator=generator))
    like = next(iter(starts.values()))
    placed = {name: torch.stack(each).to(like.device) for name, each in fixed.items()}
    placed |= {name: placed[name].to(like.dtype) for name in ("signs", "more_signs")}
    placed |= {f"{name}.start": value.clone() for name, value in starts.items()}
    zeros = torch.zeros((len(seeds), count), dtype=like.dtype, device=like.device)
    return InSubspace(names, {f"{TOGETHER}.coordinates": zeros}, placed)
