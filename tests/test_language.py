"""Windows of a token file, and files that are none."""

import numpy as np
import pytest
import torch

from icecore.errors import InputError
from icecore.tasks import Language


@pytest.fixture
def task(tmp_path):
    for name, start in (("train", 0), ("test", 50)):
        np.save(tmp_path / f"{name}.npy", np.arange(start, start + 21, dtype=np.uint16))
    return Language(str(tmp_path / "train.npy"), str(tmp_path / "test.npy"), window=4, vocabulary=100)


def test_windows_are_consecutive_tokens(task):
    batch = task.sample(500, torch.Generator().manual_seed(0))
    assert torch.equal(batch.targets, batch.tokens + 1)
    assert batch.scored.all()
    assert set(batch.tokens[:, 0].tolist()) == set(range(17)), "every window of the file comes up"


def test_test_windows_follow_one_another(task):
    batch = task.test_set()
    assert batch.tokens.flatten().tolist() == list(range(50, 70))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros((2, 2), dtype=np.int64), "one-dimensional"),
        (np.zeros(9), "integers"),
        (np.zeros(4, dtype=np.int64), "at least 5 tokens"),
        (np.full(9, 100), "must be 0..99"),
        (b"no array", "is no token file"),
        (None, "does not exist"),
    ],
)
def test_a_file_that_is_no_token_file_is_refused(tmp_path, content, message):
    path = tmp_path / "tokens.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content)
    with pytest.raises(InputError, match=message):
        Language(str(path), str(path), window=4, vocabulary=100).test_set()


def test_without_a_file_the_way_out_is_named():
    with pytest.raises(InputError, match="--train-file FILE"):
        Language().sample(1, torch.Generator())
