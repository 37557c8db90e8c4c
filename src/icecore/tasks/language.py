"""Language modeling: windows of a file of tokens."""

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from icecore.errors import InputError, require
from icecore.tasks.base import Batch, Task
from icecore.tasks.drawing import below


@dataclass(frozen=True)
class Language(Task):
    """Given a text's tokens so far, predict the next one, at every position of a window.

    With windows of 3:   tokens 5 8 2 9 -> fed 5 8 2, targets 8 2 9

    A token file is a one-dimensional integer array saved by `numpy.save`. Training windows start
    anywhere in `train_file`; test windows follow one another in `test_file`, a text of its own.
    """

    train_file: str | None = None
    test_file: str | None = None
    window: int = 512  # SOURCE: appendix D.3
    vocabulary: int = 10_000  # SOURCE: appendix D.1.4

    name: ClassVar[str] = "language"
    test_split: ClassVar = "separate"

    def __post_init__(self) -> None:
        require(self.window >= 1, f"window must be at least 1, got {self.window}")
        require(self.vocabulary >= 2, f"vocabulary must be at least 2, got {self.vocabulary}")

    @property
    def vocab_size(self) -> int:
        return self.vocabulary

    @property
    def max_length(self) -> int:
        return self.window

    def tokens_of(self, field: str) -> np.ndarray:
        """The token file named by a field, memory-mapped."""
        path = getattr(self, field)
        flag = field.replace("_", "-")
        require(path is not None, f"language needs a file of tokens: give --{flag} FILE.npy")
        return open_tokens(path, self.window, self.vocabulary)

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        tokens = self.tokens_of("train_file")
        starts = below(len(tokens) - self.window, (count,), generator)
        return self.windows(tokens, starts.cpu().numpy()).to(generator.device)

    def test_set(self) -> Batch:
        tokens = self.tokens_of("test_file")
        return self.windows(tokens, np.arange(0, len(tokens) - self.window, self.window))

    def windows(self, tokens: np.ndarray, starts: np.ndarray) -> Batch:
        index = starts[:, None] + np.arange(self.window + 1)
        sequence = torch.from_numpy(tokens[index].astype(np.int64))
        fed, targets = sequence[:, :-1].contiguous(), sequence[:, 1:].contiguous()
        return Batch(fed, targets, torch.ones_like(fed, dtype=torch.bool))

    def floors(self) -> dict[str, float]:
        """Accuracy of the training text's most frequent token, alone and after each token."""
        if self.train_file is None or self.test_file is None:
            return {}
        train, test = (self.tokens_of(field)[:].astype(np.int64) for field in ("train_file", "test_file"))
        counts = np.bincount(train, minlength=self.vocabulary)
        bigrams, times = np.unique(train[:-1] * self.vocabulary + train[1:], return_counts=True)
        successor = np.full(self.vocabulary, counts.argmax())
        by_times = np.argsort(times, kind="stable")  # the last write, the most frequent, stays
        successor[bigrams[by_times] // self.vocabulary] = bigrams[by_times] % self.vocabulary
        return {
            "most_frequent_token": float((test[1:] == counts.argmax()).mean()),
            "best_guess_from_token": float((test[1:] == successor[test[:-1]]).mean()),
        }


@functools.lru_cache(maxsize=8)
def open_tokens(path: str, window: int, vocabulary: int) -> np.ndarray:
    """A checked token file; only the part that is read is held in memory."""
    try:
        tokens = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"the token file {path} does not exist; check the path") from None
    except (OSError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} is no token file ({reason}); make one with numpy.save of an integer array") from error
    rule = f"a token file is a one-dimensional array of integers; {path} holds"
    require(tokens.ndim == 1, f"{rule} {tokens.ndim} dimensions")
    require(np.issubdtype(tokens.dtype, np.integer), f"{rule} {tokens.dtype}")
    require(
        len(tokens) > window,
        f"a window of {window} needs at least {window + 1} tokens; {path} holds {len(tokens)}",
    )
    low, high = int(tokens.min()), int(tokens.max())
    require(
        low >= 0 and high < vocabulary,
        f"tokens must be 0..{vocabulary - 1} for vocabulary {vocabulary}; {path} holds {low}..{high}",
    )
    return tokens
