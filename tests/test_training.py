"""Training: what is frozen stays frozen, seeds are what they are alone, the schedule, the data by step."""

import math
from dataclasses import replace

import pytest
import torch

import icecore as ice
from icecore.errors import InputError
from icecore.models import LSTM, ModelDims, Transformer, initialize
from icecore.signals import Interrupts
from icecore.tasks import Batch, DecimalAddition, ModularAddition, Needle, Parentheses, Task
from icecore.training import Phase, Population, RunConfig, RunFolder, TrainingConfig
from icecore.training.loop import Trainer
from icecore.training.optimizer import clip_factors, norms_of
from icecore.training.population import CHANNELS_AT_ONCE, losses, predict
from icecore.training.progress import Intervals
from icecore.training.stream import Stream

pytestmark = pytest.mark.shapes

CPU = torch.device("cpu")
TASK = Needle(max_pairs=3, values=20, vocabulary=40, test_size=200)
MODEL = Transformer(width=16, init="matched")
SHORT = {"steps": 12, "batch": 16, "lr": 1e-2, "warmup_steps": 4}


def one_batch(task: Task = TASK, count: int = 32) -> Batch:
    return task.sample(count, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("model", [MODEL, replace(MODEL, position_init="sinusoidal"), LSTM(width=16)], ids=str)
@pytest.mark.parametrize("trainable", ["embeddings", "unembed", "embed", "token+unembed"])
def test_what_is_frozen_stays_the_same_to_the_bit(model, trainable):
    runs = ice.train(TASK, model, trainable, seeds=2, **SHORT)
    dims = runs.config.dims
    for index, seed in enumerate(runs.config.seeds):
        start = initialize(model, dims, seed)
        for name, value in runs.population.frozen.items():
            assert torch.equal(value[index], start[name])
            assert value.grad is None
            assert not value.requires_grad
        for name, value in runs.population.trained.items():
            assert not torch.equal(value[index], start[name]), f"{name} trained"


def test_counts_say_what_trains():
    result = ice.train(TASK, MODEL, "embeddings", **SHORT).result
    assert result["trained_parameters"] == 16 * (40 + 100 + 40)
    assert result["trained_parameters"] + result["frozen_parameters"] == sum(
        value.numel() for value in initialize(MODEL, ModelDims(40, 100), 0).values()
    )


@pytest.mark.parametrize("model", [MODEL, LSTM(width=16)], ids=str)
@pytest.mark.parametrize("trainable", ["embeddings", "all"])
def test_a_seed_in_a_population_is_the_seed_alone(model, trainable):
    together, curves = [], []
    runs = ice.train(
        TASK, model, trainable, seeds=[5, 2, 9], on_progress=lambda p: together.append(p.loss), log_every=1, **SHORT
    )
    for index, seed in enumerate([5, 2, 9]):
        alone = ice.train(
            TASK, model, trainable, seeds=[seed], on_progress=lambda p: curves.append(p.loss[0]), log_every=1, **SHORT
        )
        for name, value in alone.population.frozen.items():
            assert torch.equal(value[0], runs.population.frozen[name][index])
        # The same sums in another order: float32 rounding, amplified by 12 steps of Adam.
        curve = [loss[index] for loss in together]
        assert curve == pytest.approx(curves, abs=2e-4)
        curves.clear()


def test_seeds_of_weights_and_of_data_are_separate():
    def first_loss(**seeds):
        losses: list[float] = []
        ice.train(TASK, MODEL, on_progress=lambda p: losses.append(p.loss[0]), log_every=1, **SHORT, **seeds)
        return losses[0]

    assert first_loss(seeds=[0], data_seed=0) == first_loss(seeds=[0], data_seed=0)
    assert first_loss(seeds=[1], data_seed=0) != first_loss(seeds=[0], data_seed=0)
    assert first_loss(seeds=[0], data_seed=1) != first_loss(seeds=[0], data_seed=0)


def test_the_schedule_by_hand():
    cosine = TrainingConfig(steps=1500, lr=2.0, warmup_steps=500)
    assert cosine.lr_at(0) == 0
    assert cosine.lr_at(250) == 1.0
    assert cosine.lr_at(500) == 2.0
    assert cosine.lr_at(1000) == pytest.approx(1.0)
    assert cosine.lr_at(1500) == pytest.approx(0.0)
    assert TrainingConfig(steps=1500, lr=2.0, warmup_steps=0, schedule="constant").lr_at(1499) == 2.0


def test_the_schedule_is_hugging_faces():
    from transformers import get_cosine_schedule_with_warmup

    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.3)
    theirs = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=7, num_training_steps=40)
    ours = TrainingConfig(steps=40, lr=0.3, warmup_steps=7)
    for step in range(40):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(ours.lr_at(step))
        optimizer.step()
        theirs.step()


def test_clipping_is_per_seed_and_torchs():
    generator = torch.Generator().manual_seed(0)
    scales = torch.tensor([[0.01], [1.0], [100.0]])  # seed 0 is far below the limit
    gradients = [scales * torch.randn((3, size), generator=generator) for size in (20, 7)]
    expected = []
    for seed in range(3):
        alone = [torch.zeros(part.shape[1], requires_grad=True) for part in gradients]
        for one, part in zip(alone, gradients, strict=True):
            one.grad = part[seed].clone()
        torch.nn.utils.clip_grad_norm_(alone, 1.0)
        expected.append([one.grad for one in alone])
    factors = clip_factors(norms_of(gradients), 1.0)
    for seed in range(3):
        for part, wanted in zip(gradients, expected[seed], strict=True):
            assert wanted is not None
            assert torch.allclose(part[seed] * factors[seed], wanted)


def test_decay_is_for_matrices_alone():
    """With no gradient to speak of, a decayed parameter shrinks by lr x decay a step and others stay."""
    settings = {"steps": 1, "batch": 4, "lr": 0.1, "warmup_steps": 0, "clip": 1e-30, "weight_decay": 0.5}
    runs = ice.train(TASK, MODEL, "all", **settings)
    start = initialize(MODEL, runs.config.dims, 0)
    for name, value in runs.population.trained.items():
        factor = 0.95 if start[name].ndim > 1 else 1.0
        assert torch.allclose(value[0], start[name] * factor), name


def test_loss_is_the_mean_over_scored_positions():
    task = DecimalAddition(digits=2)
    batch = one_batch(task, 8)
    population = Population(MODEL, ModelDims(31, 40), (0, 1), "embeddings", CPU)
    work = population.prepare(batch)
    ours = losses(population.logits(work), work.targets)
    for index in range(2):
        logits = MODEL.logits(population.parameters(index), batch.tokens)
        by_hand = [
            -logits[row, column].log_softmax(dim=-1)[batch.targets[row, column]]
            for row, column in batch.scored.nonzero().tolist()
        ]
        assert ours[index].item() == pytest.approx(torch.stack(by_hand).mean().item(), rel=1e-5)


def test_predictions_do_not_depend_on_how_many_rows_go_at_once():
    population = Population(MODEL, ModelDims(40, 100), (0, 1), "embeddings", CPU)
    batch = one_batch()
    whole, whole_loss = predict(population, batch)
    parts, parts_loss = predict(population, batch, rows_at_once=5)
    assert torch.equal(whole, parts)
    assert torch.allclose(whole_loss, parts_loss)


@pytest.mark.parametrize("trainable", ["embeddings", "all"])
def test_seeds_in_groups_are_the_seeds_together(trainable, monkeypatch):
    together = ice.train(TASK, MODEL, trainable, seeds=3, **SHORT)
    monkeypatch.setitem(CHANNELS_AT_ONCE, "cpu", MODEL.width)
    apart = ice.train(TASK, MODEL, trainable, seeds=3, **SHORT)
    assert (len(together.population.groups), len(apart.population.groups)) == (1, 3)
    for name, value in together.population.trained.items():
        assert torch.allclose(value, apart.population.trained[name], rtol=1e-4, atol=1e-6), name


def test_an_evaluation_tells_how_far_it_is(monkeypatch):
    monkeypatch.setattr("icecore.training.population.LOGITS_EVALUATED_AT_ONCE", TASK.vocab_size * TASK.test_size // 4)
    heard = []
    result = ice.train(TASK, MODEL, evaluate_every=5, on_progress=heard.append, **SHORT).result
    shares = {step: [one.evaluated for one in heard if one.step == step and one.evaluated] for step in (5, 12)}
    assert shares == {5: [0.25, 0.5, 0.75], 12: [0.25, 0.5, 0.75]}
    assert result["accuracy"] == ice.train(TASK, MODEL, evaluate_every=4, **SHORT).accuracy, "measured at its last look"


def test_where_all_test_items_take_too_long_a_curve_has_points_of_a_sample(monkeypatch):
    usual = ice.train(TASK, MODEL, seeds=2, **SHORT)
    monkeypatch.setattr("icecore.training.progress.EVALUATION_SHARE", 1e-9)
    hurried = ice.train(TASK, MODEL, seeds=2, **SHORT)
    *before, last = [row for row in hurried.metrics if row.get("accuracy") is not None]
    assert len(before) >= 5
    assert before[0]["step"] <= hurried.config.steps / 5
    assert all(row["items"] == 1 and set(row["accuracy"]) <= {0.0, 1.0} for row in before)
    assert "items" not in last
    assert last["accuracy"] == hurried.accuracy == usual.accuracy
    for name, value in usual.population.trained.items():
        assert torch.equal(value, hurried.population.trained[name]), name


def test_data_are_a_function_of_the_step():
    for task in (TASK, ModularAddition(modulus=11)):
        forward, backward = Stream(task, 16, 3, CPU), Stream(task, 16, 3, CPU)
        steps = range(0, 3 * forward.batches_per_block, max(1, forward.batches_per_block // 2))
        wanted = [forward.batch_at(step).tokens for step in steps]
        again = [backward.batch_at(step).tokens for step in reversed(steps)]
        assert all(torch.equal(a, b) for a, b in zip(wanted, reversed(again), strict=True))
        assert not torch.equal(Stream(task, 16, 4, CPU).batch_at(0).tokens, wanted[0])


def test_an_epoch_is_every_item_once_with_a_smaller_last_batch():
    task = ModularAddition(modulus=11)  # 114 items to train on
    stream = Stream(task, 50, 0, CPU)
    epochs = [[stream.batch_at(step) for step in range(start, start + 3)] for start in (0, 3)]
    for batches in epochs:
        assert [len(batch) for batch in batches] == [50, 50, 14]
        items = {item for batch in batches for item in task.items(batch)}
        assert items == set(task.train_items())
    assert not torch.equal(epochs[0][0].tokens, epochs[1][0].tokens)


def test_a_random_body_learns_what_baselines_cannot():
    """The paper's claim in one run: embeddings around a frozen body beat every rule that needs no learning."""
    task = Parentheses(max_pairs=8, min_length=8, test_size=300)
    model = Transformer(width=128, init="matched")
    runs = ice.train(task, model, "embeddings", steps=300, batch=128, lr=1e-2, warmup_steps=50)
    assert runs.accuracy[0] > max(runs.result["baselines"].values()) > 0.95


def test_a_non_finite_loss_stops_the_run_and_names_step_and_seed(tmp_path):
    settings = SHORT | {"steps": 50, "lr": 1e30, "warmup_steps": 0}
    with pytest.raises(InputError, match=r"loss of seed 7 is not finite at step \d+; the last checkpoint is step"):
        ice.train(TASK, MODEL, "all", seeds=[7], out=tmp_path, checkpoint_every=1, **settings)


def test_configs_survive_json_and_name_their_run():
    base = RunConfig(Parentheses(), Transformer(width=8), ModelDims(4, 80))
    assert RunConfig.from_json(base.as_json()) == base
    others = [
        RunConfig(Parentheses(max_pairs=29), Transformer(width=8), ModelDims(4, 80)),
        RunConfig(Parentheses(), Transformer(width=16), ModelDims(4, 80)),
        RunConfig(Parentheses(), Transformer(width=8), ModelDims(4, 81)),
        RunConfig(Parentheses(), Transformer(width=8), ModelDims(4, 80), (Phase("all"),)),
        RunConfig(Parentheses(), Transformer(width=8), ModelDims(4, 80), seeds=(1,)),
        RunConfig(Parentheses(), Transformer(width=8), ModelDims(4, 80), data_seed=1),
        RunConfig(
            Parentheses(), Transformer(width=8), ModelDims(4, 80), phases=(Phase(training=TrainingConfig(lr=0.1)),)
        ),
    ]
    assert len({config.run_id for config in [base, *others]}) == 8


def test_presets_settle_what_paper_and_scripts_disagree_on():
    from icecore.tasks import Memorization
    from icecore.training.presets import preset_model, preset_training

    def settings(task, model, preset):
        training = preset_training(task, model, preset)
        return training.lr, training.weight_decay

    transformer, lstm = Transformer(width=8), LSTM(width=8)
    assert settings(Memorization(), transformer, "released") == (5e-3, 1e-4)
    assert settings(Memorization(), transformer, "paper") == (1e-3, 1e-3)
    assert settings(Needle(), lstm, "released") == (1e-3, 1e-3)
    assert settings(Needle(), lstm, "paper") == (5e-3, 1e-3)
    assert preset_model(Needle(), Transformer, "paper") == {"init": "paper"}
    modular = preset_training(ModularAddition(), transformer, "released")
    assert modular.steps == 5_000 * math.ceil(37_620 / 4_000)
    memorization = preset_training(Memorization(), transformer, "released")
    assert memorization.steps == 21_000 * 512 * 512 // memorization.batch


def test_a_setting_that_came_later_leaves_the_names_of_older_runs():
    usual = RunConfig(Parentheses(), MODEL, ModelDims(4, 80))
    assert "test_items_in_stream" not in usual.as_json()["task"]["settings"]
    assert "position_init" not in usual.as_json()["model"]["settings"]
    for other in (
        replace(usual, task=Parentheses(test_items_in_stream=True)),
        replace(usual, model=replace(MODEL, position_init="sinusoidal")),
    ):
        assert RunConfig.from_json(other.as_json()) == other
        assert other.run_id != usual.run_id


def test_a_run_is_looked_at_and_saved_as_often_as_the_help_says():
    usual = Intervals(log_every=10, evaluate_every=200, checkpoint_every=100, evaluation_share=0.2)
    assert Intervals.of(2000, None, None, None) == usual
    assert Intervals.of(2000, 1, 2, 3) == Intervals(1, 2, 3)
    assert Intervals.of(5, None, None, None) == Intervals(1, 1, 1, 0.2)
    assert [usual.sample(batch) for batch in (1, 2, 1000)] == [80, 160, 256]
    intervals = Intervals(log_every=3, evaluate_every=5, checkpoint_every=7)
    assert [step for step in range(1, 14) if intervals.is_logged(step)] == [3, 5, 6, 9, 10, 12]
    assert sorted({intervals.next_stop(step, 13) for step in range(13)}) == [3, 5, 6, 7, 9, 10, 12, 13]


def test_of_several_seeds_the_one_that_is_not_finite_is_named(tmp_path):
    task, model = Needle(max_pairs=2, values=9, vocabulary=20, test_size=20), Transformer(width=8)
    config = RunConfig(
        task, model, ModelDims(20, 5), phases=(Phase(training=TrainingConfig(batch=8)),), seeds=(3, 4, 7)
    )
    for folder, good, words in (
        (None, 0, "at step 0; no checkpoint was saved yet; try a lower --gain or --lr$"),
        (RunFolder(tmp_path), 3, f"at step 3; the last checkpoint is step 2 in {tmp_path}; try a lower --lr$"),
    ):
        trainer = Trainer(config, torch.device("cpu"), folder)
        for until in (min(good, 2), good):
            trainer.advance(until, Interrupts())
            if trainer.step == 2:
                trainer.save()
        with torch.no_grad():
            trainer.population.trained["token"][2] = math.nan
        with pytest.raises(InputError, match=f"the loss of seed 7 is not finite {words}"):
            trainer.advance(9, Interrupts())


def test_what_the_warm_up_reaches_is_told():
    advice = TrainingConfig(steps=100, warmup_steps=500).advice
    assert advice is not None
    assert "the rate ends at 2.0e-04 of 0.001; give more steps, or 10 warm-up steps" in advice, "99 of 500 steps"
    assert TrainingConfig(steps=100, warmup_steps=99).advice is None
    for steps, way_out in ((1, "or 0 warm-up steps"), (5, "or 1 warm-up step"), (30, "or 3 warm-up steps")):
        said = TrainingConfig(steps=steps, warmup_steps=steps).advice
        assert said is not None
        assert said.endswith(way_out)


def test_a_batch_may_be_all_training_items():
    task, model = ModularAddition(modulus=11), Transformer(width=8)
    whole = len(task.train_items())

    def config(batch):
        return RunConfig(task, model, ModelDims(11, 5), phases=(Phase(training=TrainingConfig(batch=batch)),))

    assert config(whole).training.batch == whole
    with pytest.raises(InputError, match=f"must not exceed the {whole} training items"):
        config(whole + 1)
