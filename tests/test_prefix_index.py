"""Prefix indices by hand, and their promises: sizes that repeat, nothing lost."""

import itertools

import pytest
import torch

from icecore.models import Transformer
from icecore.models.engines import ShapeBuckets
from icecore.models.engines.prefix_index import PrefixIndex, index_prefixes
from icecore.tasks import DecimalAddition, ModularAddition, Needle, Parentheses
from icecore.training.batches import prepare_batches
from icecore.training.stream import BatchStream, Stream

pytestmark = pytest.mark.shapes

OPEN, CLOSE, ASK = 1, 2, 3


def strings(*rows: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Parentheses that end in `?`, which is scored, as one step."""
    width = max(map(len, rows))
    tokens = torch.tensor([[" ()?".index(c) for c in row.ljust(width)] for row in rows])
    return tokens[None], (tokens == ASK)[None]


def test_the_example_of_the_docstring():
    tokens, scored = strings("())(?", "()(?")
    packed = index_prefixes(tokens, scored, 4)
    step = packed.step(0)
    assert packed.nodes == [7]
    assert step.source.tolist() == [1, 0], "sorted"
    assert step.lengths.tolist() == [4, 5]
    assert step.node_of[0, :4].tolist() == [0, 1, 2, 3]
    assert step.node_of[1].tolist() == [0, 1, 4, 5, 6]
    assert step.own[1].tolist() == [-1, -1, 4, 5, 6]
    assert step.shared == 2, "two tokens of the second sequence have nodes of the first"
    assert step.slot[1].tolist() == [0, 1, 2 + 4, 2 + 5, 2 + 6]
    assert step.shared_node.tolist() == [0, 1]
    assert step.scored_node.tolist() == [3, 6]
    assert step.weight.tolist() == [1, 1]
    assert step.flat_indices(5).tolist() == [5 + 3, 4]


@pytest.mark.parametrize("length", [2, 4])
def test_rows_are_the_distinct_tokens_at_positions(length):
    tokens, scored = strings(*("".join(each) + "?" for each in itertools.product("()", repeat=length)))
    step = index_prefixes(tokens, scored, 4).step(0)
    assert step.has_rows is (length == 4), "9 rows for 46 nodes pay, 5 for 10 do not"
    pairs = list(zip(step.row_columns.tolist(), step.row_tokens.tolist(), strict=True))
    expected = sorted({(column, token) for row in tokens[0].tolist() for column, token in enumerate(row)})
    if step.has_rows:
        assert pairs == expected
    for sequence, row in enumerate(step.source.tolist()):
        for column, token in enumerate(tokens[0, row].tolist()):
            assert pairs[step.row_of[sequence, column]] == (column, token)
            assert pairs[step.row_of_node[step.node_of[sequence, column]]] == (column, token)


@pytest.mark.parametrize(
    "task", [Needle(), DecimalAddition(), Parentheses(), ModularAddition()], ids=lambda task: task.name
)
def test_a_node_is_a_distinct_prefix(task):
    batch = task.sample(300, torch.Generator().manual_seed(0))
    packed = index_prefixes(batch.tokens[None], batch.scored[None], task.vocab_size)
    step = packed.step(0)
    prefixes: dict[int, tuple[int, ...]] = {}
    for sequence, row in enumerate(step.source.tolist()):
        for column in range(int(batch.lengths[row])):
            prefix = tuple(batch.tokens[row, : column + 1].tolist())
            assert prefixes.setdefault(int(step.node_of[sequence, column]), prefix) == prefix
    assert len(prefixes) == packed.nodes[0]
    distinct = {tuple(batch.tokens[r, :n].tolist()) for r in range(300) for n in range(1, int(batch.lengths[r]) + 1)}
    # Sequences are sorted by as many first tokens as a number holds; later coincidences may stay apart.
    assert len(distinct) <= packed.nodes[0] <= 1.01 * len(distinct)


def test_filled_up_steps_have_the_size_that_was_asked_for():
    batch = Needle().sample(200, torch.Generator().manual_seed(0))
    prepared = prepare_batches(Transformer(width=8).engine, 256, batch, 50, ShapeBuckets(4, 2))
    steps = [prepared.step(index).inputs for index in range(4)]
    assert all(isinstance(step, PrefixIndex) for step in steps)
    sizes = [step.nodes for step in steps]
    assert sizes[:2] == [sizes[0]] * 2
    assert sizes[2:] == [sizes[2]] * 2
    for index, step in enumerate(steps):
        own = step.own[step.own >= 0]
        assert sorted(own.tolist()) == list(range(sizes[index])), "every node has one owner"
        assert step.lengths[50:].sum() + (step.own[:50] >= 0).sum() == sizes[index]


def test_groups_do_not_cross_epochs():
    needed = [100, 90, 80, 200, 10, 20, 30, 40]
    assert ShapeBuckets(4, 3).of_nodes(needed) == [112, 112, 112, 208, 32, 32, 32, 48]


@pytest.mark.parametrize("task", [Needle(max_pairs=4), ModularAddition(modulus=13)], ids=lambda task: task.name)
def test_the_prepared_batch_of_a_step_is_the_batch_of_that_step(task):
    stream = Stream(task, 50, 0, torch.device("cpu"))
    prepared = BatchStream(stream, Transformer(width=8).engine)
    for step in (0, 1, 2, 3, 4, 7, stream.batches_per_block, stream.batches_per_block + 1):
        slot = prepared.at(step)
        targets, batch = slot.batches.step(slot.index).targets, stream.batch_at(step)
        assert sorted(targets.tokens[targets.weight > 0].tolist()) == sorted(batch.targets[batch.scored].tolist())


def test_what_does_not_exist_belongs_to_no_sum():
    """Steps of unequal sizes, and room for more shared tokens than there are: that room is never written."""
    task = Parentheses(max_pairs=5)
    batch = task.sample(100, torch.Generator().manual_seed(0))
    tokens, scored = (part.unflatten(0, (2, 50)) for part in (batch.tokens, batch.scored))
    packed = index_prefixes(tokens, scored, task.vocab_size, lambda needed: [needed[0] + 5, max(needed) + 90])
    for index in range(2):
        step = packed.step(index)
        assert step.has_rows
        is_read = torch.arange(tokens.shape[2]) < step.lengths[:, None]
        used = set(step.slot[is_read & (step.own < 0)].tolist())
        assert max(used) < step.shared - 1
        summed = step.key_order[step.key_row < len(step.row_tokens)].tolist()
        assert sorted(summed) == sorted(used | {step.shared + node for node in range(step.nodes)})
