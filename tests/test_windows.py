"""Language modeling's engine: whole windows, and logits that never exist all at once."""

import dataclasses
import os
import subprocess
import sys

import pytest
import torch
from references import reference_results, results_by_place, shaken

from icecore.models import ModelDims, Transformer
from icecore.models.engines import ReferenceEngine, chunked_loss
from icecore.models.engines.chunked_loss import chunked_cross_entropy
from icecore.models.engines.windows import SHORTEST, Windows
from icecore.tasks import Batch, ModularAddition, Needle
from icecore.training import Population, TrainingConfig
from icecore.training.batches import prepare_batch
from icecore.training.parallel import MicroBatches, Parallel
from icecore.training.steps import Steps
from icecore.training.stream import BatchStream, Stream

pytestmark = pytest.mark.shapes

CPU = torch.device("cpu")
VOCABULARY = 23


def text(rows: int, length: int = SHORTEST) -> Batch:
    tokens = torch.randint(VOCABULARY, (rows, length + 1), generator=torch.Generator().manual_seed(0))
    return Batch(tokens[:, :-1], tokens[:, 1:], torch.ones(rows, length, dtype=torch.bool))


@pytest.mark.parametrize("attention", ["softmax", "prefix-sum"])
@pytest.mark.parametrize("trainable", ["embeddings", "all", "unembed", "token+unembed"])
def test_windows_give_the_reference_losses_logits_and_gradients(trainable, attention, monkeypatch):
    monkeypatch.setitem(chunked_loss.LOGITS_AT_ONCE, "cpu", 50 * VOCABULARY)  # several chunks
    model = Transformer(width=16, layers=3, heads=2, init="matched", attention=attention)
    population = shaken(Population(model, ModelDims(VOCABULARY, 80), (0, 1), trainable, CPU, dtype=torch.float64))
    batch = text(3)
    assert isinstance(population.prepare(batch).inputs, Windows)
    found, expected = results_by_place(population, batch), reference_results(population, batch)
    assert "unembed" in found
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert torch.allclose(value, expected[name], rtol=1e-9, atol=1e-12), name


def test_a_share_of_the_loss_has_its_share_of_the_gradients():
    model, batch = Transformer(width=16, heads=2, init="matched"), text(2)
    fast = Population(model, ModelDims(VOCABULARY, 80), (0, 1), "all", CPU, dtype=torch.float64)
    for population in (fast, fast.copy(engine=ReferenceEngine)):
        (group,), prepared = population.groups, population.prepare(batch)
        loss, gradients = group.losses_and_gradients(prepared)
        part, of_part = group.losses_and_gradients(prepared, torch.tensor(0.25, dtype=torch.float64))
        assert torch.allclose(part, loss / 4)
        assert of_part.keys() == gradients.keys() >= {"token", "unembed", "block1.mlp_out.weight"}
        assert all(torch.allclose(of_part[name], gradient / 4) for name, gradient in gradients.items())


def test_windows_that_are_not_scored_everywhere_take_the_other_way():
    batch = text(3)
    batch.scored[1, 4] = False
    assert not isinstance(prepare_batch(Transformer(width=8).engine, VOCABULARY, batch).inputs, Windows)


def test_chunked_losses_are_torchs(monkeypatch):
    monkeypatch.setitem(chunked_loss.LOGITS_AT_ONCE, "cpu", 3 * VOCABULARY)
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(2, 10, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    unembed = torch.randn(2, VOCABULARY, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(VOCABULARY, (10,), generator=generator)
    weight = torch.tensor([1.0, 0, 1, 2, 1, 1, 0, 1, 1, 1], dtype=torch.float64)
    logits = hidden @ unembed.transpose(1, 2)
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.repeat(2), reduction="none").view(2, 10)
    loss = (each * weight).sum(dim=1)
    ours = chunked_cross_entropy(hidden, unembed, targets, weight)
    for found, expected in zip(ours, (loss, *torch.autograd.grad(loss.sum(), (hidden, unembed))), strict=True):
        assert found is not None
        assert torch.allclose(found, expected)
    ours = chunked_cross_entropy(hidden.detach(), unembed, targets, weight)
    assert ours.by_hidden is None
    assert ours.by_unembed is not None


def states_after(micro: MicroBatches, task, steps: int = 6) -> dict[str, torch.Tensor]:
    model = Transformer(width=16, init="matched")
    population = Population(model, ModelDims(task.vocab_size, 100), (0, 1), "all", CPU, dtype=torch.float64)
    taken = Steps(population, TrainingConfig(steps=20, batch=32, lr=1e-2, warmup_steps=0))
    batches = BatchStream(Stream(task, 32, 0, CPU), model.engine, micro=micro)
    for step in range(steps):
        slot = batches.at(step)
        taken.take(*slot.step(slot.index))
    return {**taken.state(), "loss": taken.loss}


@pytest.mark.parametrize(
    "task", [Needle(max_pairs=3, values=20, vocabulary=40, test_size=20), ModularAddition(modulus=8)], ids=str
)
def test_a_batch_in_parts_is_the_batch(task):
    """The last batch of an epoch of modular addition is smaller."""
    whole_batch, in_chunks = states_after(MicroBatches(), task), states_after(MicroBatches(accumulate=4), task)
    for name, value in whole_batch.items():
        assert torch.allclose(in_chunks[name], value, rtol=1e-6, atol=1e-9), name  # AdamW divides by small squares


def test_each_process_has_its_part_of_a_batch():
    task, batch = Needle(max_pairs=3, values=20, vocabulary=40, test_size=20), 12
    stream = Stream(task, batch, 0, CPU)
    found = []
    for rank in range(2):
        micro = MicroBatches(Parallel(rank, 2), accumulate=3)
        slot = BatchStream(stream, Transformer(width=8).engine, micro=micro).at(5)
        parts = slot.step(slot.index)
        assert [len(part.targets.tokens) for part in parts] == [2, 2, 2]
        found += [part.targets.flat_indices for part in parts]
    rows = torch.cat(found).sort().values // stream.task.max_length
    assert rows.tolist() == list(range(5 * batch, 6 * batch))


PROGRAM = """
import sys
import torch
from icecore.tasks import Needle
from icecore.training.parallel import Parallel
import icecore as ice
task = Needle(max_pairs=3, values=20, vocabulary=40, test_size=50)
runs = ice.train(task, ice.Transformer(width=16, init="matched"), seeds=2, steps=12, batch=16, lr=1e-2,
                 warmup_steps=2, out=sys.argv[1], device="cpu", resume=None, accumulate=int(sys.argv[2]))

# What the first has is for all, and what one says is heard by all.
cpu = torch.device("cpu")
parallel = Parallel.join(cpu)
tensors = {name: torch.full((2, 3), float(parallel.rank)).T for name in ("first", "second")}
assert parallel.share_step(7 + parallel.rank, cpu) == 7
parallel.share(tensors.values())
assert not any(tensor.any() for tensor in tensors.values())
for rank in (0, 1, 2):
    assert parallel.largest(15 * (parallel.rank == rank), cpu) == 15 * (rank < parallel.processes)
"""


def test_two_processes_train_what_one_does(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    alone = [sys.executable, "program.py", "alone", "1"]
    together = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone", "program.py", "together", "2"]
    for command in (alone, [sys.executable, "-m", *together]):
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=120)
    from icecore.store import read_json
    from icecore.training import RunFolder

    (first,) = (tmp_path / "alone").glob("*/*")
    (second,) = (tmp_path / "together").glob("*/*")
    assert first.name == second.name, "the same run"
    results = [read_json(path / "result.json") for path in (first, second)]
    assert results[0]["loss"] == pytest.approx(results[1]["loss"], rel=1e-4)  # float32 sums in another order
    populations = [RunFolder(path).load(CPU)[1] for path in (first, second)]
    for name, value in populations[0].trained.items():
        assert torch.allclose(value, populations[1].trained[name], rtol=1e-3, atol=1e-5), name


def test_a_batch_that_cannot_be_divided_is_refused():
    from icecore.errors import InputError

    with pytest.raises(InputError, match="a batch of 32 cannot be divided into 1 processes x 5 parts"):
        states_after(MicroBatches(accumulate=5), Needle(max_pairs=3, values=20, vocabulary=40, test_size=20))
    with pytest.raises(InputError, match="accumulate must be at least 1, got 0"):
        dataclasses.replace(MicroBatches(), accumulate=0)
