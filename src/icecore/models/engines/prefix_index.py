"""The index of a step, by which each distinct prefix of its sequences is computed once.

A causal model's state at a token depends only on the tokens up to it. So a batch is a set of *nodes*, its distinct
prefixes, as in a tree: 1,000 strings of parentheses have 35,600 tokens but 26,100 nodes. Before the first attention
the state depends only on token and position: these pairs are the *rows*, 176 of them. Tokens after a sequence's last
scored position have no node.

    ( ) ( ?      nodes: 0 1 2 3           Sequences are sorted: each shares a prefix with the one before.
    ( ) ) ( ?           0 1 4 5 6
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int32, Int64, Integer
from torch import Tensor

from icecore.models.engines.prefix_tree import PrefixTree, TokenPositionTable, at_slots, sort_sequences


@dataclass(frozen=True)
class Segments:
    """Items to sum by equal key, sorted by key; items with key `count` are in no sum."""

    order: Int32[Tensor, " item"]
    key: Int32[Tensor, " item"]
    count: int


@dataclass(frozen=True)
class Reads:
    """Keys and values that each sequence attends to, as indices into those of a layer."""

    index: Int32[Tensor, "sequence length"]
    lengths: Int32[Tensor, " sequence"]
    own: Int32[Tensor, "sequence length"]  # the token's node if no earlier sequence has it, else -1
    slot: Int32[Tensor, "sequence length"]  # where a key's gradient goes: shared ones first, then by node
    query_columns: Int32[Tensor, " query"]  # columns of scored positions
    slots: int | None  # scored positions per sequence; None: every token is a query
    real_rows: int  # sequences after these are padding


@dataclass(frozen=True)
class PrefixIndex:
    """The index of one step, or of many with a leading step axis. Sizes are fixed, so that a graph can replay it.

    A step is padded to its size with nodes of sequences that nothing reads.
    """

    # The first layer's rows.
    row_tokens: Int32[Tensor, "*step row"]
    row_columns: Int32[Tensor, "*step row"]
    row_of_node: Int32[Tensor, "*step node"]
    # Sequences, sorted.
    source: Int64[Tensor, "*step real"]  # its row in the batch
    lengths: Int32[Tensor, "*step sequence"]
    row_of: Int32[Tensor, "*step sequence length"]
    node_of: Int32[Tensor, "*step sequence length"]
    own: Int32[Tensor, "*step sequence length"]
    slot: Int32[Tensor, "*step sequence length"]
    # Scored positions, equally many per sequence; weight 0 where there is none.
    scored_node: Int32[Tensor, "*step query"]
    scored_column: Int32[Tensor, "*step query"]
    weight: Float[Tensor, "*step query"]
    # Sums for gradients: nodes by row, keys (shared ones, then nodes) by row, shared keys by shared node.
    node_order: Int32[Tensor, "*step node"]
    node_row: Int32[Tensor, "*step node"]
    key_order: Int32[Tensor, "*step key"]
    key_row: Int32[Tensor, "*step key"]
    shared_order: Int32[Tensor, "*step shared"]
    shared_number: Int32[Tensor, "*step shared"]
    shared_node: Int32[Tensor, "*step sharing"]  # the node of each shared number
    # Sizes.
    nodes: int
    has_rows: bool  # false: every node is a row

    def read(self) -> list[Tensor]:
        """Return the tensors that a captured step reads: all but `source`."""
        return [value for name, value in vars(self).items() if isinstance(value, Tensor) and name != "source"]

    def fixed(self) -> "PrefixIndex":
        """Clone into static buffers for CUDA-graph capture."""
        return self.map(torch.clone)

    def size(self) -> tuple[object, ...]:
        """Return a key: steps with equal keys replay the same graph."""
        return self.has_rows, self.nodes, self.sequences, *(tuple(part.shape) for part in self.read())

    def map(self, function: Callable[[Tensor], Tensor]) -> "PrefixIndex":
        return replace(self, **{n: function(value) for n, value in vars(self).items() if isinstance(value, Tensor)})

    def cut(self, nodes: int) -> "PrefixIndex":
        """Cut the arrays of a step to its number of nodes."""
        spare = self.row_of_node.shape[-1] - nodes
        if spare == 0:
            return replace(self, nodes=nodes)
        names = ["row_of_node", "node_order", "node_row", "key_order", "key_row"]
        names += [] if self.has_rows else ["row_tokens", "row_columns"]
        return replace(self, nodes=nodes, **{name: getattr(self, name)[..., :-spare] for name in names})

    @property
    def sequences(self) -> int:
        return self.source.shape[-1]

    @property
    def slots(self) -> int:
        return self.scored_node.shape[-1] // self.sequences

    @property
    def shared(self) -> int:
        return self.shared_order.shape[-1]

    @property
    def nodes_by_row(self) -> Segments:
        return Segments(self.node_order, self.node_row, self.row_tokens.shape[-1])

    @property
    def keys_by_row(self) -> Segments:
        return Segments(self.key_order, self.key_row, self.row_tokens.shape[-1])

    @property
    def keys_by_shared_node(self) -> Segments:
        return Segments(self.shared_order, self.shared_number, self.shared_node.shape[-1])

    def reads(self, rows: bool, scored: bool) -> Reads:
        """Return what attention reads from rows (the first layer) or nodes, for every node or for scored positions."""
        return Reads(
            self.row_of if rows else self.node_of,
            self.lengths,
            self.own,
            self.slot,
            self.scored_column,
            self.slots if scored else None,
            self.sequences,
        )

    def flat_indices(self, width: int) -> Int64[Tensor, "*step query"]:
        """Return the scored positions' indices into a flattened batch of that width, in the order of the logits."""
        source = self.source[..., None].expand(*self.source.shape, self.slots)
        return (source * width + self.scored_column.view(source.shape)).flatten(-2)


class PrefixIndices:
    """The indices of consecutive steps of one batch size."""

    def __init__(self, stacked: PrefixIndex, nodes: Sequence[int]) -> None:
        self.stacked, self.nodes = stacked, nodes

    def __len__(self) -> int:
        return len(self.nodes)

    def step(self, index: int) -> PrefixIndex:
        return self.stacked.map(lambda value: value[index]).cut(self.nodes[index])


def index_prefixes(
    tokens: Int64[Tensor, "step batch length"],
    scored: Bool[Tensor, "step batch length"],
    vocabulary: int,
    sizes: Callable[[list[int]], list[int]] | None = None,
) -> PrefixIndices:
    """Index many steps at once, with tensor operations.

    `sizes` returns each step's number of nodes, at least what it needs; other sizes are then rounded up too, so that
    they repeat. Without it, nothing is rounded.
    """
    rounded = identity if sizes is None else round_up
    source, tokens, scored, lengths = sort_sequences(tokens, scored, vocabulary)
    tree = PrefixTree.of(tokens, lengths)
    needed, most_shared, slots = fetch(
        tree.own.ge(0).sum(dim=(1, 2)), tree.shared_counts.max(), scored.sum(dim=2).max()
    )
    nodes_of_steps = needed if sizes is None else sizes(needed)
    nodes, shared = max(nodes_of_steps), rounded(most_shared[0])
    rows = TokenPositionTable.of_pairs(tokens, tree, vocabulary, nodes, rounded)
    filling = fillers(needed, nodes_of_steps, tokens.shape[2], tokens.device)
    filling_nodes = filling.nodes.clamp(min=0)

    def with_fillers(values: Tensor, of_fillers: Tensor) -> Int32[Tensor, "step sequence *length"]:
        return torch.cat([values, of_fillers], dim=1).to(torch.int32)

    scored_slot = slots_of_scored(scored, slots[0])
    scored_column, scored_node, weight = (
        at_scored(part, scored_slot, slots[0])
        for part in (tree.column.expand_as(tokens), tree.node_of, torch.ones_like(tokens))
    )
    slot = torch.where(tree.is_shared, tree.rank, tree.own + shared)
    index = PrefixIndex(
        row_tokens=rows.tokens,
        row_columns=rows.columns,
        row_of_node=rows.of_node,
        source=source,
        lengths=with_fillers(lengths, filling.lengths),
        row_of=with_fillers(rows.of, filling_nodes * (not rows.are_fewer)),
        node_of=with_fillers(tree.node_of, filling_nodes),
        own=with_fillers(tree.own, filling.nodes),
        slot=with_fillers(slot, filling.nodes + shared),
        scored_node=scored_node,
        scored_column=scored_column,
        weight=weight.float(),
        **sums_of_gradients(tree, rows, nodes_of_steps, shared, rounded),
        nodes=nodes,
        has_rows=rows.are_fewer,
    )
    return PrefixIndices(index.map(Tensor.contiguous), nodes_of_steps)


def sums_of_gradients(
    tree: PrefixTree, rows: TokenPositionTable, nodes_of_steps: list[int], shared: int, rounded: Callable[[int], int]
) -> dict[str, Int32[Tensor, "step _"]]:
    """Return the orders and keys by which gradients are summed; nodes beyond a step's size are in no sum."""
    steps, nodes = rows.of_node.shape
    device, none = tree.own.device, rows.tokens.shape[1]
    beyond = torch.arange(nodes, device=device) >= torch.tensor(nodes_of_steps, device=device)[:, None]
    row_of_node = rows.of_node.masked_fill(beyond, none)
    row_of_shared = at_slots(rows.of, tree.rank, tree.is_shared, shared, fill=none)
    node_row, node_order = sort_small(row_of_node, none)
    key_row, key_order = sort_small(torch.cat([row_of_shared, row_of_node], dim=1), none)

    node_of_shared = at_slots(tree.node_of, tree.rank, tree.is_shared, shared, fill=-1)
    exists = node_of_shared >= 0
    begins = exists.clone()
    begins[:, 1:] &= node_of_shared[:, 1:] != node_of_shared[:, :-1]
    number = begins.cumsum(dim=1, dtype=torch.int32) - 1
    sharing = rounded(fetch(begins.sum(dim=1).max())[0][0]) if shared else 0
    found = {
        "node_order": node_order,
        "node_row": node_row,
        "key_order": key_order,
        "key_row": key_row,
        "shared_order": torch.arange(shared, device=device).expand(steps, -1),
        "shared_number": number.masked_fill(~exists, sharing),
        "shared_node": at_slots(node_of_shared, number, begins, sharing),
    }
    return {name: value.to(torch.int32) for name, value in found.items()}


def slots_of_scored(scored: Bool[Tensor, "step batch length"], slots: int) -> Int64[Tensor, "step batch length"]:
    """Number the scored positions of each sequence; `slots` elsewhere."""
    counted = scored.flatten(1).cumsum(dim=1).view_as(scored)  # over the whole step: a GPU is slow at many short sums
    before = counted[..., :1] - scored[..., :1].long()
    return (counted - before - 1).where(scored, slots)


def at_scored(
    values: Int32[Tensor, "step batch length"], slot: Int64[Tensor, "step batch length"], slots: int
) -> Int32[Tensor, "step query"]:
    """Return the values at scored positions, `slots` per sequence; 0 where it has fewer."""
    out = torch.zeros((*values.shape[:2], slots + 1), dtype=torch.int32, device=values.device)
    return out.scatter_(2, slot, values)[..., :-1].flatten(1)


def sort_small(values: Integer[Tensor, "step item"], most: int) -> tuple[Tensor, Tensor]:
    """Sort each step; return values and order. Fewer bits sort faster."""
    return tuple(values.to(torch.int16 if most < 2**15 else torch.int32).sort(dim=1, stable=True))  # type: ignore[return-value]


@dataclass(frozen=True)
class Fillers:
    """Sequences that pad a step from the nodes it needs to its size."""

    lengths: Int64[Tensor, "step filler"]
    nodes: Int64[Tensor, "step filler length"]  # -1 after the end


def fillers(needed: list[int], sizes: list[int], length: int, device: torch.device) -> Fillers:
    spare = max(size - need for size, need in zip(sizes, needed, strict=True))
    at_once = 1 << (max(sizes) // (8 * length)).bit_length()  # usually enough, so that the count repeats
    count = -(-spare // (at_once * length)) * at_once
    begin = torch.tensor(needed, device=device)[:, None] + length * torch.arange(count, device=device)
    room = torch.tensor(sizes, device=device)[:, None]
    nodes = begin[..., None] + torch.arange(length, device=device)
    return Fillers((room - begin).clamp(0, length), nodes.where(nodes < room[..., None], -1))


def identity(value: int) -> int:
    return value


def round_up(value: int) -> int:
    """Round up in units of at least 256 and a sixteenth of the value, which varying sizes rarely cross."""
    unit = max(256, 1 << (value // 16).bit_length())
    return -(-value // unit) * unit


def fetch(*values: Tensor) -> list[list[int]]:
    """Fetch the values of several tensors with one device synchronization."""
    flat = [value.reshape(-1) for value in values]
    numbers = torch.cat(flat).tolist()
    lists = []
    for part in flat:
        lists.append(numbers[: len(part)])
        numbers = numbers[len(part) :]
    return lists
