"""Distinct prefixes of sequences (`PrefixTree`), and distinct (token, position) pairs (`TokenPositionTable`)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int32, Int64, Integer
from torch import Tensor

ROWS_PAY_BELOW = 0.5  # distinct (token, position) pairs per node below which rows are worth a gather
KEY_BITS = 62  # size of the sort key, made of a sequence's first tokens


def sort_sequences(
    tokens: Int64[Tensor, "step batch length"], scored: Bool[Tensor, "step batch length"], vocabulary: int
) -> tuple[
    Int64[Tensor, "step batch"],
    Int32[Tensor, "step batch length"],
    Bool[Tensor, "step batch length"],
    Int32[Tensor, "step batch"],
]:
    """Return the sort order and, sorted: tokens (0 where not read), scored positions, numbers of tokens read."""
    column = torch.arange(tokens.shape[2], device=tokens.device, dtype=torch.int32)
    lengths = (scored * (column + 1)).amax(dim=2)
    narrow = tokens.to(torch.int32).where(column < lengths[..., None], 0)
    source = sorted_order(narrow, vocabulary)
    rows = torch.arange(len(tokens), device=tokens.device)[:, None], source
    return source, narrow[rows], scored[rows], lengths[rows]


def sorted_order(tokens: Int32[Tensor, "step batch length"], vocabulary: int) -> Int64[Tensor, "step batch"]:
    """Return the sort order by the first tokens, as many as fit into one int64 key."""
    bits = max(1, (vocabulary - 1).bit_length())
    count = min(tokens.shape[2], KEY_BITS // bits)
    key = torch.zeros(tokens.shape[:2], dtype=torch.int64, device=tokens.device)
    for column in range(count):
        key = key << bits | tokens[..., column]
    return (key if bits * count > 31 else key.to(torch.int32)).argsort(dim=1, stable=True)


@dataclass(frozen=True)
class PrefixTree:
    """The nodes of sorted sequences: each distinct prefix is one node."""

    column: Int32[Tensor, " length"]
    own: Int32[Tensor, "step batch length"]  # the token's node if no earlier sequence has it, else -1
    node_of: Int32[Tensor, "step batch length"]  # 0 where nothing is read
    is_shared: Bool[Tensor, "step batch length"]  # the previous sequence has the same node here
    rank: Int32[Tensor, "step batch length"]  # rank of a shared token among those of the step
    shared_counts: Int64[Tensor, " step"]

    @staticmethod
    def of(tokens: Int32[Tensor, "step batch length"], lengths: Int32[Tensor, "step batch"]) -> "PrefixTree":
        steps, batch, length = tokens.shape
        column = torch.arange(length, device=tokens.device, dtype=torch.int32)
        common = shared_prefix_lengths(tokens, lengths)
        first_node = (lengths - common).cumsum(dim=1, dtype=torch.int32) - (lengths - common)
        is_new = (column >= common[..., None]) & (column < lengths[..., None])
        own = torch.where(is_new, first_node[..., None] + column - common[..., None], -1)
        is_shared = column < common[..., None]
        # Shared tokens are numbered column by column, so that those of one node are consecutive.
        by_column = is_shared.transpose(1, 2).flatten(1)
        rank = (by_column.cumsum(dim=1, dtype=torch.int32) - 1).view(steps, length, batch).transpose(1, 2)
        node_of = own.cummax(dim=1).values.clamp_(min=0)
        return PrefixTree(column, own, node_of, is_shared, rank, by_column.sum(dim=1))


@dataclass(frozen=True)
class TokenPositionTable:
    """Rows: the distinct (token, position) pairs or, unless these are far fewer than the nodes, the nodes."""

    tokens: Int32[Tensor, "step row"]
    columns: Int32[Tensor, "step row"]
    of: Int32[Tensor, "step batch length"]
    of_node: Int32[Tensor, "step node"]
    are_fewer: bool

    @staticmethod
    def of_nodes(tokens: Int32[Tensor, "step batch length"], tree: PrefixTree, nodes: int) -> "TokenPositionTable":
        column = tree.column.expand_as(tokens)
        of_node = torch.arange(nodes, device=tokens.device, dtype=torch.int32).expand(len(tokens), -1)
        tokens, column = (at_slots(part, tree.own, tree.own >= 0, nodes) for part in (tokens, column))
        return TokenPositionTable(tokens, column, tree.node_of, of_node, are_fewer=False)

    @staticmethod
    def of_pairs(
        tokens: Int32[Tensor, "step batch length"],
        tree: PrefixTree,
        vocabulary: int,
        nodes: int,
        rounded: Callable[[int], int],
    ) -> "TokenPositionTable":
        distinct, row_of = distinct_rows(tokens, tree.own >= 0, vocabulary)
        if len(distinct) >= ROWS_PAY_BELOW * nodes:
            return TokenPositionTable.of_nodes(tokens, tree, nodes)
        spare = rounded(len(distinct)) - len(distinct)
        distinct = torch.cat([distinct, distinct[:1].expand(spare)]).expand(len(tokens), -1)
        return TokenPositionTable(
            (distinct % vocabulary).to(torch.int32),
            (distinct // vocabulary).to(torch.int32),
            row_of,
            at_slots(row_of, tree.own, tree.own >= 0, nodes),
            are_fewer=True,
        )


def shared_prefix_lengths(
    tokens: Int32[Tensor, "step batch length"], lengths: Int32[Tensor, "step batch"]
) -> Int32[Tensor, "step batch"]:
    """Return the length of the prefix that each sequence shares with the previous one."""
    both = torch.minimum(lengths[:, 1:], lengths[:, :-1])
    column = torch.arange(tokens.shape[2], device=tokens.device)
    differs = (tokens[:, 1:] != tokens[:, :-1]) | (column >= both[..., None])
    # The first column that differs. argmax may return any of equal maxima, so each column has its own value.
    first = (differs * (tokens.shape[2] - column)).amax(dim=2)
    common = (tokens.shape[2] - first).to(torch.int32)
    return torch.cat([torch.zeros_like(lengths[:, :1]), common], dim=1)


def distinct_rows(
    tokens: Int32[Tensor, "step batch length"], is_new: Bool[Tensor, "step batch length"], vocabulary: int
) -> tuple[Int64[Tensor, " row"], Int32[Tensor, "step batch length"]]:
    """Return the distinct pairs, as column * vocabulary + token, and the row of each token among them."""
    key = torch.arange(tokens.shape[2], device=tokens.device) * vocabulary + tokens
    occurs = torch.zeros(tokens.shape[2] * vocabulary + 1, dtype=torch.bool, device=tokens.device)
    occurs[key.where(is_new, len(occurs) - 1)] = True
    occurs = occurs[:-1]
    place = (occurs.cumsum(0, dtype=torch.int32) - 1).clamp_(min=0)
    return occurs.nonzero()[:, 0], place[key]


def at_slots(
    values: Integer[Tensor, "step *places"],
    slot: Integer[Tensor, "step *places"],
    valid: Bool[Tensor, "step *places"],
    count: int,
    fill: int = 0,
) -> Int32[Tensor, "step {count}"]:
    """Scatter valid values to their slots; `fill` elsewhere."""
    out = torch.full((len(values), count + 1), fill, dtype=torch.int32, device=values.device)
    index = slot.where(valid, count).flatten(1).long()
    return out.scatter_(1, index, values.flatten(1).to(torch.int32))[:, :-1]
