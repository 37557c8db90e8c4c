"""Windows of a prepared text, baselines by hand, and folders that are none."""

import json
import math

import numpy as np
import pytest
import torch
from prepared_texts import made_by_hand

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import ModelDims
from icecore.seeding import make_generator
from icecore.tasks import Batch, Language, make_task, ngrams
from icecore.tasks import check as checking
from icecore.tasks.ngrams import Counts
from icecore.training import RunConfig, RunFolder
from icecore.training.presets import preset_training


@pytest.fixture
def folder(tmp_path):
    return made_by_hand(tmp_path / "text", range(21), range(50, 71), 100)


@pytest.fixture
def task(folder):
    return Language(str(folder), window=4)


def test_windows_are_consecutive_tokens(task):
    batch = task.sample(500, torch.Generator().manual_seed(0))
    assert torch.equal(batch.targets, batch.tokens + 1)
    assert batch.scored.all()
    assert set(batch.tokens[:, 0].tolist()) == set(range(17)), "every window of the file comes up"


def test_test_windows_follow_one_another(task):
    batch = task.test_set()
    assert batch.tokens.flatten().tolist() == list(range(50, 70))


def test_sizes_and_digest_come_from_the_folder(task, folder):
    assert (task.vocab_size, task.max_length, task.digest) == (100, 4, "by hand")
    assert task == Language(str(folder), window=4, digest="by hand")
    assert Language().vocab_size == 10_000


def test_another_text_behind_the_same_path_is_refused(task, folder):
    made_by_hand(folder, range(30), range(30), 100, digest="another")
    with pytest.raises(InputError, match=r"holds another text \(digest another\) than expected \(digest by hand\)"):
        make_task("language", settings={"folder": str(folder), "digest": task.digest})
    with pytest.raises(InputError, match="holds another text"):
        task.test_set()
    assert len(Language(str(folder), window=4).test_set()) == 7


def test_bytes_of_counts_the_targets_that_are_scored(tmp_path):
    folder = made_by_hand(tmp_path / "text", [0, 1, 2, 3], [1, 2, 3, 0, 3], 4, token_bytes=[0, 1, 5, 30])
    task = Language(str(folder), window=2)
    test = task.test_set()
    assert test.targets.tolist() == [[2, 3], [0, 3]]
    assert task.bytes_of(test) == 5 + 30 + 0 + 30
    assert task.bytes_of(Batch(test.tokens, test.targets, test.targets == 2)) == 5


def test_accuracy_baselines_by_hand(tmp_path):
    task = Language(str(made_by_hand(tmp_path / "text", [0, 1, 0, 1, 0, 2], [1, 0, 1, 2, 0], 3)), window=2)
    # 0 is the most frequent token, 1 follows 0 and 0 follows 1; what follows 2 was never seen.
    assert task.baselines() == {"most_frequent_token": 2 / 4, "best_guess_from_token": 3 / 4}


def test_loss_baselines_by_hand(tmp_path):
    task = Language(str(made_by_hand(tmp_path / "text", [0, 1, 0, 1, 0, 2], [1, 0, 1, 2, 0], 3)), window=2)
    # Counts 3, 2, 1, and one more each: 4/9, 3/9, 2/9. The targets are 0 1 2 0.
    unigram = -math.log(4 / 9 * 3 / 9 * 2 / 9 * 4 / 9) / 4
    # 0 has 3 successors of 2 kinds (1 twice, 2 once), 1 has 2 of one kind (0 twice), 2 has none.
    after_one = (2 + 1 * 4 / 9) / (2 + 1)  # 1 -> 0
    after_zero = (2 + 2 * 3 / 9) / (3 + 2)  # 0 -> 1
    never_seen = (0 + 1 * 2 / 9) / (2 + 1)  # 1 -> 2
    from_nothing = 4 / 9  # 2 -> 0
    bigram = -math.log(after_one * after_zero * never_seen * from_nothing) / 4
    assert task.loss_baselines() == pytest.approx({"unigram": unigram, "bigram": bigram})


def test_the_last_tokens_that_no_window_holds_are_in_no_baseline(tmp_path):
    whole = made_by_hand(tmp_path / "whole", [0, 1, 0, 1, 0, 2], [1, 0, 1, 2, 0], 3)
    longer = made_by_hand(tmp_path / "longer", [0, 1, 0, 1, 0, 2], [1, 0, 1, 2, 0, 2], 3)
    assert Language(str(longer), window=2).loss_baselines() == Language(str(whole), window=2).loss_baselines()


def test_both_baselines_are_distributions():
    tokens = np.random.default_rng(0).integers(0, 5, 200).astype(np.uint16)
    tokens[tokens == 3] = 2  # one token that never comes up
    counts = Counts.of(tokens, 5)
    assert counts.unigram().sum() == pytest.approx(1)
    every = np.arange(5)
    for before in every:
        each = [np.exp(-counts.bigram_loss(np.array([before]), np.array([after]))) for after in every]
        assert sum(each) == pytest.approx(1)


@pytest.mark.parametrize("piece", [1, 7, 64, 1000])
def test_counting_in_pieces_counts_the_same(monkeypatch, piece):
    tokens = np.random.default_rng(0).integers(0, 9, 500).astype(np.uint16)
    monkeypatch.setattr(ngrams, "PIECE", piece)
    table = np.zeros((9, 9), dtype=int)
    np.add.at(table, (tokens[:-1], tokens[1:]), 1)
    counts = Counts.of(tokens, 9)
    assert counts.tokens.tolist() == np.bincount(tokens, minlength=9).tolist()
    first, second = np.divmod(np.arange(81), 9)
    assert counts.times_of(first, second).tolist() == table.flatten().tolist()
    capped = Counts.of(tokens, 9, pairs_counted=130)
    assert capped.times.sum() == 130
    assert capped.tokens.tolist() == counts.tokens.tolist()


def test_baselines_of_real_text_are_in_order(tmp_path, capsys):
    """Pairs say more than single tokens, and both say more than nothing at all."""
    assert main(["prepare", "stories", "--vocabulary", "300", "--out", str(tmp_path / "stories")]) == 0
    task = Language(str(tmp_path / "stories"), window=32)
    losses = task.loss_baselines()
    assert losses["bigram"] < losses["unigram"] < math.log(300)
    assert "stories" in capsys.readouterr().out


def test_a_prepared_text_keeps_the_contract_and_goes_through_the_commands(tmp_path, capsys):
    folder = str(tmp_path / "stories")
    assert main(["prepare", "stories", "--vocabulary", "300", "--out", folder]) == 0
    for finding in checking.check_task(lambda: Language(folder, window=16)):
        assert finding.problem is None, finding.rule
    capsys.readouterr()
    assert main(["data", "language", "--folder", folder, "--window", "16", "--count", "2"]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert len(first["prompt"]) == 1
    assert first["answer"][-1:] == second["prompt"]
    flags = ["--folder", folder, "--window", "16", "--width", "16", "--heads", "2", "--steps", "2", "--batch", "2"]
    assert main(["train", "language", *flags, "--out", str(tmp_path / "runs"), "--device", "cpu"]) == 0
    assert "loss baselines: unigram" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("validation.npy", np.zeros((2, 2), dtype=np.uint16), "is not the array of 21 tokens"),
        ("validation.npy", np.zeros(21), "is not the array of 21 tokens"),
        ("validation.npy", np.zeros(20, dtype=np.uint16), "is not the array of 21 tokens"),
        ("validation.npy", np.full(21, 100, dtype=np.uint16), r"tokens must be 0..99; the validation split .* damaged"),
        ("validation.npy", b"no array", "is damaged"),
        ("validation.npy", None, "validation.npy is missing; prepare the text again with --overwrite"),
        ("manifest.json", b"{}", "is not an icecore prepare manifest"),
        ("manifest.json", b"{", "cannot be read"),
        ("manifest.json", None, "is not a prepared text: it has no manifest.json"),
    ],
)
def test_a_folder_that_is_damaged_is_refused(folder, name, content, message):
    path = folder / name
    path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content)
    with pytest.raises(InputError, match=message):
        Language(str(folder), window=4).test_set()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"give --folder FOLDER \(make one: icecore prepare stories\)"),
        ({"digest": "x"}, "a digest needs the folder"),
        ({"folder": "missing"}, "there is no folder missing; make it with icecore prepare NAME --out missing"),
        ({"window": 0}, "window must be at least 1, got 0"),
    ],
)
def test_wrong_settings_name_the_way_out(settings, message):
    with pytest.raises(InputError, match=message):
        Language(**settings).sample(1, make_generator(0))


def test_a_window_longer_than_the_text_is_refused(folder):
    with pytest.raises(InputError, match="a window of 21 needs at least 22 tokens; the validation split"):
        Language(str(folder), window=21).test_set()


def test_a_run_reports_its_loss_a_byte_and_its_best_loss(tmp_path):
    tokens = np.arange(2000) % 7
    folder = made_by_hand(tmp_path / "text", tokens, tokens[:300], 7, token_bytes=[0, 2, 2, 2, 2, 2, 2])
    task, model = Language(str(folder), window=70), ice.Transformer(width=16, heads=2)
    base = preset_training(task, model, "released")
    assert base.steps == round(5 * 2000 / (20 * 70)), "five epochs"
    more = {"batch": 4, "lr": 3e-2, "warmup_steps": 2, "evaluate_every": 3}
    runs = ice.train(task, model, seeds=2, steps=24, out=tmp_path / "runs", device="cpu", **more)
    assert runs.path is not None
    losses = {row["step"]: row["test_loss"] for row in RunFolder(runs.path).metrics() if "test_loss" in row}
    assert list(losses) == list(range(3, 25, 3))
    for seed in range(2):
        best, step = min((loss[seed], step) for step, loss in losses.items())
        assert (runs.result["best_loss"][seed], runs.result["best_step"][seed]) == (best, step)
    bytes_per_token = 6 * 2 / 7  # of seven tokens six stand for two bytes; 280 targets hold each 40 times
    assert runs.result["loss_per_byte"] == pytest.approx([loss / bytes_per_token for loss in runs.result["loss"]])
    assert runs.result["loss"] == pytest.approx(losses[24])
    assert runs.result["loss"][0] < runs.result["loss_baselines"]["unigram"]


def test_a_run_is_the_same_wherever_its_text_lies(tmp_path):
    tokens = np.arange(500) % 7
    configs = [
        RunConfig(
            Language(str(made_by_hand(tmp_path / name, tokens, tokens, 7)), 70), ice.Transformer(8), ModelDims(7, 70)
        )
        for name in ("here", "there")
    ]
    assert configs[0].as_json() != configs[1].as_json()
    assert configs[0].run_id == configs[1].run_id
    assert RunConfig.from_json(configs[0].as_json()).task == configs[0].task
