"""Embeddings of low rank: what trains, its gradients, where it begins, and that nothing else knows."""

import dataclasses
import json
import math
from typing import Any

import pytest
import torch
from small_runs import FLAGS, MODEL, TASK, Stop, run_json, same_weights, stop_after

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import LSTM, Llama, initialize
from icecore.store.tensors import load_tensors
from icecore.training import Population, config_of
from icecore.training.rank import BASES, EmbeddingRank, body_basis, hadamard, restricted
from icecore.training.snapshots import parameters_at
from icecore.training.stream import Stream

SHARED_KEYS = Llama(width=16, heads_per_key=2)
SHORT = {"batch": 16, "lr": 1e-2, "warmup_steps": 2, "steps": 6}
THREE = ("token", "position", "unembed")
CPU = torch.device("cpu")


def config(basis="random", rank=3, of=THREE, model=MODEL, **more):
    return config_of(TASK, model, seeds=2, embedding_rank=rank, rank_basis=basis, rank_of=of, **{**SHORT, **more})


def population_of(config, dtype=torch.float64):
    more: dict[str, Any] = {"dtype": dtype, "initial": config.initial, "rank": config.rank}
    return Population(config.model, config.dims, config.seeds, config.trainable, CPU, **more)


def batch_of(population):
    return population.prepare(Stream(TASK, 16, 0, CPU).batch_at(0))


def stirred(population):
    """Move all that trains, so that no gradient is zero by chance."""
    generator = torch.Generator().manual_seed(0)
    noise = {
        name: value + 0.1 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in population.trained.items()
    }
    population.load(noise)
    return population


@pytest.mark.parametrize("of", [THREE, ("token",), ("unembed", "position")])
@pytest.mark.parametrize("basis", BASES)
def test_gradients_are_those_of_autograd_through_the_whole_matrices(basis, of):
    population = stirred(population_of(config(basis, of=of)))
    batch = batch_of(population)
    _, found = population.groups[0].losses_and_gradients(batch)
    rank = population.restricted
    assert rank is not None
    leaves = {name: value.clone().requires_grad_() for name, value in population.trained.items()}
    whole = {**population.frozen, **leaves, **rank.expand(leaves)}
    engine = population.engine(population.model, {name: whole[name] for name in population.specs}, torch.float64)
    logits = engine.logits(batch.inputs)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.tokens.repeat(2), reduction="none")
    (loss.view(2, -1) * batch.targets.weight).sum().div(batch.targets.weight.sum()).backward()
    assert set(found) == set(leaves)
    for name, leaf in leaves.items():
        assert leaf.grad is not None
        assert torch.allclose(found[name], leaf.grad, atol=1e-10), name


@pytest.mark.parametrize("basis", ["random", "learned", "body"])
@pytest.mark.parametrize("rank", [1, 3])
def test_trained_embeddings_have_this_rank_and_begin_with_the_usual_norm(basis, rank):
    run = ice.train(TASK, MODEL, seeds=2, embedding_rank=rank, rank_basis=basis, device="cpu", **SHORT)
    for seed in (0, 1):
        usual = initialize(MODEL, run.config.dims, seed)
        for name in THREE:
            values = torch.linalg.svdvals(run.parameters(seed)[name].double())
            assert values[rank] < 1e-6 * values[0] < values[rank - 1]
            first = run.config.initial(seed)[name]
            assert float(first.norm()) == pytest.approx(float(usual[name].norm()), rel=1e-5)
            assert not torch.allclose(first, run.parameters(seed)[name])


def test_a_run_begins_where_its_config_says():
    for basis in BASES:
        made = config(basis)
        population = population_of(made, torch.float32)
        for index, seed in enumerate(made.seeds):
            for name, value in made.initial(seed).items():
                assert torch.allclose(population.parameters(index)[name], value, atol=1e-6), (basis, name)


def test_the_basis_is_orthonormal_and_each_matrixs_own():
    rank, dims = EmbeddingRank(5), config().dims
    initial = initialize(MODEL, dims, 0)
    bases = {name: rank.basis_of(MODEL, name, 0, initial) for name in THREE}
    for basis in bases.values():
        assert torch.allclose(basis @ basis.T, torch.eye(5), atol=1e-6)
    assert not torch.allclose(bases["token"], bases["unembed"])
    assert not torch.allclose(bases["token"], rank.basis_of(MODEL, "token", 1, initial))


def test_the_bodys_basis_is_what_it_reads_and_writes_most():
    initial = initialize(MODEL, config().dims, 0)
    query, key = initial["block0.q.weight"], initial["block0.k.weight"]
    first = body_basis(MODEL, "token", initial)[0]
    assert float((query.T @ key @ first).norm()) == pytest.approx(
        float(torch.linalg.svdvals(query.T @ key)[0]), rel=1e-4
    )
    assert torch.equal(first, body_basis(MODEL, "position", initial)[0])
    written = body_basis(MODEL, "unembed", initial)[0]
    largest = float(torch.linalg.svdvals(initial["block1.mlp_out.weight"])[0])
    assert float((initial["block1.mlp_out.weight"].T @ written).norm()) == pytest.approx(largest, rel=1e-4)


def test_the_whole_width_is_no_limit():
    full = config(rank=MODEL.width)
    usual = config_of(TASK, MODEL, seeds=2, **SHORT)
    for name, value in usual.initial(0).items():
        assert torch.allclose(full.initial(0)[name], value, atol=1e-6), name


def test_hadamards_matrix_is_orthogonal_and_symmetric():
    matrix = hadamard(torch.eye(8, dtype=torch.float64))
    assert torch.allclose(matrix @ matrix, torch.eye(8, dtype=torch.float64))
    assert torch.allclose(matrix, matrix.T)
    assert set((matrix * math.sqrt(8)).round().flatten().tolist()) == {-1.0, 1.0}
    assert torch.equal(hadamard(torch.tensor([[1.0, 2.0]])), torch.tensor([[3.0, -1.0]]) / math.sqrt(2))


def test_a_subspace_moves_all_embeddings_along_nearly_orthonormal_directions():
    made = config("subspace", rank=1)
    stacked = {name: torch.stack([made.initial(seed)[name].double() for seed in (0, 1)]) for name in THREE}
    assert made.rank is not None
    subspace = restricted(made.rank, MODEL, made.dims, made.seeds, stacked)
    (name,) = subspace.coordinates
    count = subspace.coordinates[name].shape[1]
    assert count == 40 + 100 + 40, "as many numbers as with rank 1"
    columns = []
    for index in range(count):
        step = torch.zeros((2, count), dtype=torch.float64)
        step[:, index] = 1
        moved = subspace.expand({name: step})
        columns.append(torch.cat([(moved[each] - stacked[each])[0].flatten() for each in THREE]))
    gram = torch.stack(columns) @ torch.stack(columns).T
    assert float(gram.diagonal().mean()) == pytest.approx(1, abs=0.05)
    assert float((gram - torch.diag(gram.diagonal())).abs().max()) < 0.15
    assert torch.linalg.matrix_rank(gram) == count
    assert (torch.stack(columns).abs() > 1e-9).float().mean() > 0.9, "each number moves all of them"


def test_what_trains_is_counted_and_stored_as_whole_matrices(tmp_path):
    run = ice.train(TASK, MODEL, seeds=2, embedding_rank=3, rank_of=("token", "unembed"), out=tmp_path, **SHORT)
    trained, frozen = run.config.parameter_counts
    assert (run.result["trained_parameters"], run.result["frozen_parameters"]) == (trained, frozen)
    assert trained == 40 * 3 + 40 * 3 + 100 * 16
    assert sum(value[0].numel() for value in run.population.trained.values()) == trained
    assert run.path is not None
    stored = load_tensors(run.path / "weights.safetensors")[0]
    assert {name: tuple(value.shape) for name, value in stored.items()} == {
        "token": (2, 40, 16),
        "position": (2, 100, 16),
        "unembed": (2, 40, 16),
    }
    again = ice.load(run.path, "cpu")
    assert again.config == run.config
    for name, value in run.parameters(1).items():
        assert torch.equal(again.parameters(1)[name], value), name
    for learned, more in (("learned", 2 * 3 * 16), ("subspace", 0)):
        counts = config(learned, of=("token", "unembed")).parameter_counts
        assert counts == (trained + more, frozen)


PHASES = [{"trainable": "embeddings", "steps": 4}, {"trainable": "all", "steps": 3}]


@pytest.mark.parametrize(("basis", "died_at"), [("random", 2), ("learned", 4), ("subspace", 5), ("body", 6)])
def test_a_run_resumes_to_the_same_bits_in_every_phase(basis, died_at, tmp_path):
    settings: dict[str, Any] = {**SHORT, "embedding_rank": 2, "rank_basis": basis, "seeds": 2, "device": "cpu"}
    del settings["steps"]
    whole = ice.train(TASK, MODEL, out=tmp_path / "whole", phases=PHASES, snapshots=1, **settings)
    settings |= {"out": tmp_path / "out", "phases": PHASES, "log_every": 1, "checkpoint_every": 1}
    with pytest.raises(Stop):
        ice.train(TASK, MODEL, on_progress=stop_after(died_at), **settings)
    again = ice.train(TASK, MODEL, resume=True, **settings)
    assert whole.path is not None
    assert again.path is not None
    assert same_weights(whole.path, again.path)
    first = ice.train(TASK, MODEL, **{**settings, "phases": PHASES[:1], "out": None})
    assert torch.equal(parameters_at(whole.path, whole.config, 4, 1)["token"], first.parameters(1)["token"])


@pytest.mark.parametrize("model", [LSTM(width=16), Llama(width=16), ice.Transformer(width=16, attention="prefix-sum")])
def test_every_body_trains_with_a_rank(model):
    of = [role for role in THREE if any(spec.role == role for spec in model.specs(config().dims).values())]
    run = ice.train(TASK, model, embedding_rank=2, rank_of=of, **SHORT)
    for name in of:
        assert torch.linalg.matrix_rank(run.parameters(0)[name], rtol=1e-5) == 2


@pytest.mark.parametrize(("basis", "shrunk"), [("random", "A"), ("body", "A"), ("learned", "AP"), ("subspace", "")])
def test_weight_decay_acts_on_what_the_documentation_says(basis, shrunk):
    population = population_of(config(basis))
    matrices = {"A": [f"{name}.coordinates" for name in THREE], "P": [f"{name}.basis" for name in THREE]}
    assert set(population.names[True]) == {name for letter in shrunk for name in matrices[letter]}


def test_seeds_train_as_they_do_alone():
    both = ice.train(TASK, MODEL, seeds=2, embedding_rank=2, device="cpu", **SHORT)
    alone = ice.train(TASK, MODEL, seeds=[1], embedding_rank=2, device="cpu", **SHORT)
    for name, value in alone.parameters(1).items():
        assert torch.allclose(both.parameters(1)[name], value, atol=1e-5), name


def test_the_rank_is_part_of_the_id():
    plain = config_of(TASK, MODEL, seeds=2, **SHORT)
    made = [plain, config(), config("learned"), config(rank=4), config(of=("token",))]
    assert len({each.run_id for each in made}) == len(made)
    assert "embedding_rank" not in plain.as_json()
    assert config().as_json()["embedding_rank"] == {"rank": 3, "basis": "random", "of": list(THREE)}
    assert config(of=("unembed", "token")).run_id == config(of=("token", "unembed")).run_id


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"embedding_rank": 17}, "embedding_rank must be at most the width, 16, got 17"),
        ({"embedding_rank": 0}, "embedding_rank must be at least 1, got 0"),
        ({"embedding_rank": 2, "rank_basis": "bodies"}, "unknown value of basis 'bodies': did you mean 'body'"),
        ({"embedding_rank": 2, "rank_of": ["tokens"]}, "unknown embeddings in rank_of 'tokens': did you mean 'token'"),
        ({"embedding_rank": 2, "rank_of": []}, "rank_of names no embeddings"),
        ({"rank_basis": "body"}, "need a rank, as in --embedding-rank 8"),
        ({"embedding_rank": 2, "trainable": "unembed"}, "limits position, token, which does not train with unembed"),
        ({"embedding_rank": 2, "model": LSTM(width=16)}, "has no position embeddings: give --rank-of token,unembed"),
        (
            {"embedding_rank": 2, "model": LSTM(width=16), "rank_of": ["token"], "rank_basis": "body"},
            r"lstm has no block0\.q\.weight, so --rank-basis body is not defined",
        ),
        ({"embedding_rank": 2, "rank_basis": "body", "model": SHARED_KEYS, "rank_of": ["token"]}, "shares keys"),
    ],
)  # fmt: skip
def test_what_is_no_rank_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        ice.train(TASK, **{"model": MODEL, **settings}, **SHORT)


def test_taken_embeddings_are_not_limited():
    source = ice.train(TASK, MODEL, "all", **SHORT)
    with pytest.raises(InputError, match="take only the body of a run, with --body-from"):
        ice.train(TASK, from_run=source, embedding_rank=2, **SHORT)
    run = ice.train(TASK, body_from=source, embedding_rank=2, rank_basis="body", **SHORT)
    assert torch.equal(run.parameters(0)["block0.q.weight"], source.parameters(0)["block0.q.weight"])
    expected = body_basis(MODEL, "token", source.parameters(0))[:2]
    token = run.parameters(0)["token"]
    assert torch.allclose(token @ expected.T @ expected, token, atol=1e-5)


def test_a_rank_on_the_command_line(tmp_path, capsys):
    flags = [
        *FLAGS,
        "--steps",
        "3",
        "--embedding-rank",
        "2",
        "--rank-of",
        "token, unembed",
        "--out",
        tmp_path,
        "--json",
    ]
    found = run_json(capsys, "train", "needle", *flags)
    assert found["trained_parameters"] == 40 * 2 * 2 + 100 * 16
    assert main(["show", found["run"]]) == 0
    assert "embeddings: rank 2, basis random, of token, unembed" in " ".join(capsys.readouterr().out.split())
    assert json.loads((tmp_path / found["run"] / "config.json").read_text())["embedding_rank"]["rank"] == 2
    assert main(["analyze", found["run"], "--what", "variance", "--device", "cpu"]) == 0
    assert main([str(flag) for flag in ("train", "needle", *flags, "--overwrite")]) == 0
    assert "1,760 parameters train (token 80, position 1,600, unembed 80)" in capsys.readouterr().err
    assert main([str(flag) for flag in ("train", "needle", *flags, "--embedding-rank", "99")]) == 2
    assert "at most the width, 16, got 99" in capsys.readouterr().err


def test_an_exported_model_has_the_whole_embeddings(tmp_path):
    run = ice.train(TASK, MODEL, embedding_rank=2, out=tmp_path, **SHORT)
    assert main(["export", str(run.path), str(tmp_path / "hf")]) == 0
    from transformers import AutoModelForCausalLM

    network, tokens = AutoModelForCausalLM.from_pretrained(tmp_path / "hf"), TASK.test_set().tokens
    with torch.no_grad():
        assert torch.allclose(network(tokens).logits, MODEL.logits(run.parameters(0), tokens), atol=1e-5)


def test_the_config_of_an_old_run_has_no_rank():
    made = config_of(TASK, MODEL, **SHORT)
    assert made.rank is None
    assert dataclasses.replace(made, rank=EmbeddingRank(2)).run_id != made.run_id
