"""What sequences have in common, found before a model runs: each thing is computed once, and nothing that is not read.

A causal model's state at a token depends on the tokens up to it alone. So a batch is a set of *nodes*, its distinct
beginnings, as in a tree: 1,000 strings of parentheses have 31,000 tokens but 21,000 nodes. Before the first
attention the state depends on token and position alone: those are the *rows*, 240 of them. Only what comes before
a sequence's last scored position is a node at all.

    ( ) ( ?      nodes: 0 1 2 3           Sequences are sorted, so that a beginning is shared with the one before.
    ( ) ) ( ?           0 1 4 5 6
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int32, Int64, Integer
from torch import Tensor

ROWS_PAY_BELOW = 0.5  # the share of distinct (token, position) among a step's nodes at which rows are worth a gather
KEY_BITS = 62  # of a sequence's first tokens, by which it is sorted


@dataclass(frozen=True)
class Segments:
    """Which items to sum: those of equal key, in the order of their keys; a key of `count` belongs to no sum."""

    order: Int32[Tensor, " item"]
    key: Int32[Tensor, " item"]
    count: int


@dataclass(frozen=True)
class Reads:
    """What each sequence reads in attention, as indices into the keys and values of a layer."""

    index: Int32[Tensor, "sequence length"]
    lengths: Int32[Tensor, " sequence"]
    own: Int32[Tensor, "sequence length"]  # the node that a token is the first to have, else -1
    slot: Int32[Tensor, "sequence length"]  # where the gradient of a key goes: shared ones first, then by node
    query_columns: Int32[Tensor, " query"]  # of scored positions
    slots: int | None  # scored positions of a sequence; None: every token asks
    real_rows: int  # sequences after these fill a fixed size up


@dataclass(frozen=True)
class Packing:
    """The index of one step, or of many with one more axis in front. Sizes are fixed, so that a graph can replay it.

    Up to its size, a step is filled with nodes of sequences that nothing reads.
    """

    # The first layer's rows.
    row_tokens: Int32[Tensor, "*step row"]
    row_columns: Int32[Tensor, "*step row"]
    row_of_node: Int32[Tensor, "*step node"]
    # Sequences, sorted.
    source: Int64[Tensor, "*step real"]  # which of the batch it is
    lengths: Int32[Tensor, "*step sequence"]
    row_of: Int32[Tensor, "*step sequence length"]
    node_of: Int32[Tensor, "*step sequence length"]
    own: Int32[Tensor, "*step sequence length"]
    slot: Int32[Tensor, "*step sequence length"]
    # Scored positions, as many a sequence; weight 0 where there is none.
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
    shared_node: Int32[Tensor, "*step sharing"]  # the nodes with that number
    # Sizes.
    nodes: int
    has_rows: bool  # false: a row is a node

    def tensors(self) -> list[Tensor]:
        return [value for value in vars(self).values() if isinstance(value, Tensor)]

    def map(self, function: Callable[[Tensor], Tensor]) -> "Packing":
        return replace(self, **{n: function(value) for n, value in vars(self).items() if isinstance(value, Tensor)})

    def at(self, index: int | slice) -> "Packing":
        """Of many steps, one or some."""
        return self.map(lambda value: value[index])

    def cut(self, nodes: int) -> "Packing":
        """Of a packing with room for more: the arrays of a step with so many nodes."""
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
        """For attention among rows (the first layer) or nodes, asked by every node or by scored positions alone."""
        return Reads(
            self.row_of if rows else self.node_of,
            self.lengths,
            self.own,
            self.slot,
            self.scored_column,
            self.slots if scored else None,
            self.sequences,
        )

    def places(self, width: int) -> Int64[Tensor, "*step query"]:
        """Of scored positions, in the order of the logits: their places in a flattened batch of that width."""
        source = self.source[..., None].expand(*self.source.shape, self.slots)
        return (source * width + self.scored_column.view(source.shape)).flatten(-2)


class Packed:
    """The packings of consecutive steps of one batch size."""

    def __init__(self, packing: Packing, nodes: Sequence[int]) -> None:
        self.packing, self.nodes = packing, nodes

    def __len__(self) -> int:
        return len(self.nodes)

    def step(self, index: int) -> Packing:
        return self.packing.at(index).cut(self.nodes[index])

    def steps(self, begin: int, end: int) -> Packing:
        """Of several steps that have the same size."""
        return self.packing.at(slice(begin, end)).cut(self.nodes[begin])


def pack(
    tokens: Int64[Tensor, "step batch length"],
    scored: Bool[Tensor, "step batch length"],
    vocabulary: int,
    sizes: Callable[[list[int]], list[int]] | None = None,
) -> Packed:
    """The packings of many steps at once, by tensor operations.

    `sizes` gives each step's number of nodes, at least what it needs; what else differs from call to call is then
    rounded up, so that sizes repeat. Without it, every size is what is needed.
    """
    device, narrow = tokens.device, torch.int32
    steps, batch, length = tokens.shape
    column = torch.arange(length, device=device, dtype=narrow)
    lengths = (scored * (column + 1)).amax(dim=2)
    tokens = tokens.to(narrow).where(column < lengths[..., None], 0)
    source = sorted_order(tokens, vocabulary)
    rows = torch.arange(steps, device=device)[:, None], source
    tokens, lengths, scored = tokens[rows], lengths[rows], scored[rows]

    common = common_beginnings(tokens, lengths)
    first_node = (lengths - common).cumsum(dim=1, dtype=narrow) - (lengths - common)
    is_new = (column >= common[..., None]) & (column < lengths[..., None])
    own = torch.where(is_new, first_node[..., None] + column - common[..., None], -1)
    node_of = own.cummax(dim=1).values.clamp_(min=0)
    is_shared = column < common[..., None]

    # Shared keys are numbered column by column: there, those of one node follow each other.
    shared_by_column = is_shared.transpose(1, 2).flatten(1)
    rank = (shared_by_column.cumsum(dim=1, dtype=narrow) - 1).view(steps, length, batch).transpose(1, 2)
    needed, most_shared, slots = fetch(
        (lengths - common).sum(dim=1), shared_by_column.sum(dim=1).max(), scored.sum(dim=2).max()
    )
    sizes_of_steps = needed if sizes is None else sizes(needed)
    rounded = identity if sizes is None else round_up
    nodes = max(sizes_of_steps)
    shared = rounded(most_shared[0])
    slot = torch.where(is_shared, rank, own + shared)

    distinct, row_of = distinct_rows(tokens, is_new, vocabulary)
    has_rows = len(distinct) < ROWS_PAY_BELOW * sum(needed) / steps
    is_node = own >= 0
    token_of_node = at_slots(tokens, own, is_node, nodes)
    column_of_node = at_slots(column.expand_as(tokens), own, is_node, nodes)
    if has_rows:
        spare = rounded(len(distinct)) - len(distinct)
        distinct = torch.cat([distinct, distinct[:1].expand(spare)])
        parts = (distinct % vocabulary, distinct // vocabulary)
        row_tokens, row_columns = (part.expand(steps, -1) for part in parts)
        row_of_node = at_slots(row_of, own, is_node, nodes)
    else:
        row_tokens, row_columns, row_of = token_of_node, column_of_node, node_of
        row_of_node = torch.arange(nodes, device=device, dtype=narrow).expand(steps, -1)
    row_count = row_tokens.shape[1]

    # Keys: shared ones, then nodes. What is beyond a step's size belongs to no row.
    beyond = torch.arange(nodes, device=device) >= torch.tensor(sizes_of_steps, device=device)[:, None]
    row_of_shared = at_slots(row_of, rank, is_shared, shared, fill=row_count)
    node_of_shared = at_slots(node_of, rank, is_shared, shared, fill=-1)
    row_of_node_or_none = row_of_node.masked_fill(beyond, row_count)
    node_row, node_order = sort_small(row_of_node_or_none, row_count)
    key_row, key_order = sort_small(torch.cat([row_of_shared, row_of_node_or_none], dim=1), row_count)
    begins = torch.ones_like(node_of_shared, dtype=torch.bool)
    begins[:, 1:] = node_of_shared[:, 1:] != node_of_shared[:, :-1]
    number = begins.cumsum(dim=1, dtype=narrow) - 1
    (sharing,) = fetch(number[:, -1].max() + 1) if shared else ([1],)
    sharing = rounded(sharing[0])
    exists = node_of_shared >= 0
    shared_node = at_slots(node_of_shared, number, begins & exists, sharing)

    rank_in_row = (scored.cumsum(dim=2) - 1).where(scored, slots[0])
    scored_column, scored_node = (
        torch.zeros((steps, batch, slots[0] + 1), dtype=narrow, device=device)
        .scatter_(2, rank_in_row, part)[..., :-1]
        .flatten(1)
        for part in (column.expand_as(tokens), node_of)
    )
    weight = (torch.arange(slots[0], device=device) < scored.sum(dim=2)[..., None]).flatten(1).float()

    filling = fillers(needed, sizes_of_steps, length, device)
    filling_nodes = filling.nodes.clamp(min=0)
    packing = Packing(
        row_tokens=row_tokens.to(narrow),
        row_columns=row_columns.to(narrow),
        row_of_node=row_of_node.to(narrow),
        source=source,
        lengths=torch.cat([lengths, filling.lengths], dim=1).to(narrow),
        row_of=torch.cat([row_of, filling_nodes * (not has_rows)], dim=1).to(narrow),
        node_of=torch.cat([node_of, filling_nodes], dim=1).to(narrow),
        own=torch.cat([own, filling.nodes], dim=1).to(narrow),
        slot=torch.cat([slot, filling.nodes + shared], dim=1).to(narrow),
        scored_node=scored_node.to(narrow),
        scored_column=scored_column.to(narrow),
        weight=weight,
        node_order=node_order.to(narrow),
        node_row=node_row.to(narrow),
        key_order=key_order.to(narrow),
        key_row=key_row.to(narrow),
        shared_order=torch.arange(shared, device=device).expand(steps, -1).to(narrow),
        shared_number=number.masked_fill(~exists, sharing).to(narrow),
        shared_node=shared_node.to(narrow),
        nodes=nodes,
        has_rows=has_rows,
    )
    return Packed(packing.map(Tensor.contiguous), sizes_of_steps)


def sorted_order(tokens: Int32[Tensor, "step batch length"], vocabulary: int) -> Int64[Tensor, "step batch"]:
    """The order of the sequences by their first tokens, as many as one number holds."""
    bits = max(1, (vocabulary - 1).bit_length())
    count = min(tokens.shape[2], KEY_BITS // bits)
    key = torch.zeros(tokens.shape[:2], dtype=torch.int64, device=tokens.device)
    for column in range(count):
        key = key << bits | tokens[..., column]
    return (key if bits * count > 31 else key.to(torch.int32)).argsort(dim=1, stable=True)


def sort_small(values: Integer[Tensor, "step item"], most: int) -> tuple[Tensor, Tensor]:
    """Values and order, sorted along each step; the fewer bits, the faster."""
    return tuple(values.to(torch.int16 if most < 2**15 else torch.int32).sort(dim=1, stable=True))  # type: ignore[return-value]


def common_beginnings(
    tokens: Int32[Tensor, "step batch length"], lengths: Int32[Tensor, "step batch"]
) -> Int32[Tensor, "step batch"]:
    """How many first tokens each sequence has in common with the one before it."""
    both = torch.minimum(lengths[:, 1:], lengths[:, :-1])
    column = torch.arange(tokens.shape[2], device=tokens.device)
    differs = (tokens[:, 1:] != tokens[:, :-1]) | (column >= both[..., None])
    # The first column that differs: of equal largest values argmax may take any, so each has a value of its own.
    first = (differs * (tokens.shape[2] - column)).amax(dim=2)
    common = (tokens.shape[2] - first).to(torch.int32)
    return torch.cat([torch.zeros_like(lengths[:, :1]), common], dim=1)


def distinct_rows(
    tokens: Int32[Tensor, "step batch length"], is_new: Bool[Tensor, "step batch length"], vocabulary: int
) -> tuple[Int64[Tensor, " row"], Int32[Tensor, "step batch length"]]:
    """The pairs of column and token that occur, as column * vocabulary + token, and each token's place among them."""
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
    """Valid values at their slots, `fill` elsewhere."""
    out = torch.full((len(values), count + 1), fill, dtype=torch.int32, device=values.device)
    index = slot.where(valid, count).flatten(1).long()
    return out.scatter_(1, index, values.flatten(1).to(torch.int32))[:, :-1]


@dataclass(frozen=True)
class Fillers:
    """Sequences of the nodes between what a step needs and its size."""

    lengths: Int64[Tensor, "step filler"]
    nodes: Int64[Tensor, "step filler length"]  # -1 after the end


def fillers(needed: list[int], sizes: list[int], length: int, device: torch.device) -> Fillers:
    spare = max(size - need for size, need in zip(sizes, needed, strict=True))
    at_once = max(1, max(sizes) // (8 * length))  # mostly that many suffice, so that their number repeats
    count = -(-spare // (at_once * length)) * at_once
    begin = torch.tensor(needed, device=device)[:, None] + length * torch.arange(count, device=device)
    room = torch.tensor(sizes, device=device)[:, None]
    nodes = begin[..., None] + torch.arange(length, device=device)
    return Fillers((room - begin).clamp(0, length), nodes.where(nodes < room[..., None], -1))


def identity(value: int) -> int:
    return value


def round_up(value: int) -> int:
    """To a multiple of 256 and of at least a sixteenth, which varying sizes rarely cross."""
    unit = max(256, 1 << (value // 16).bit_length())
    return -(-value // unit) * unit


def fetch(*values: Tensor) -> list[list[int]]:
    """The values of several tensors by one wait for the device."""
    flat = [value.reshape(-1) for value in values]
    numbers = torch.cat(flat).tolist()
    lists = []
    for part in flat:
        lists.append(numbers[: len(part)])
        numbers = numbers[len(part) :]
    return lists
