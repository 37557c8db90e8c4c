"""Language modeling: windows of a prepared text."""

import functools
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from icecore.errors import InputError, require
from icecore.store.prepared import PreparedText, read_prepared
from icecore.tasks.base import WHERE, Task, token_accuracy
from icecore.tasks.batch import Batch
from icecore.tasks.drawing import below
from icecore.tasks.ngrams import Counts

PAPERS_VOCABULARY = 10_000  # SOURCE: appendix D.1.4; used until a text is given


@dataclass(frozen=True)
class Language(Task):
    """Given a text's tokens so far, predict the next one at every position of a window.

    With windows of 3:   tokens 5 8 2 9 -> fed 5 8 2, targets 8 2 9

    `folder` is the output of `icecore prepare`. Training windows start anywhere in its train split; test
    windows are consecutive in its validation split. `digest` identifies the text. If empty, it is filled
    in; if the folder later holds another text, that is an error.
    """

    folder: str | None = field(default=None, metadata=WHERE)
    window: int = 512  # SOURCE: appendix D.3
    digest: str = ""

    name: ClassVar[str] = "language"
    test_split: ClassVar = "separate"
    no_lazy_rules: ClassVar = "its own baselines are counts of tokens and pairs in the whole text"

    def __post_init__(self) -> None:
        require(self.window >= 1, f"window must be at least 1, got {self.window}")
        if self.folder is None:
            require(self.digest == "", "a digest needs the folder of its text: give --folder FOLDER")
            return
        found = read_prepared(self.folder).digest
        require(
            self.digest in ("", found),
            f"{self.folder} holds another text (digest {found}) than expected (digest {self.digest}); "
            "prepare that text again, or omit the digest",
        )
        object.__setattr__(self, "digest", found)

    @property
    def text(self) -> PreparedText:
        if self.folder is None:
            raise InputError("language needs a prepared text: give --folder FOLDER (make one: icecore prepare stories)")
        return open_text(self.folder, self.digest)

    @property
    def vocab_size(self) -> int:
        return PAPERS_VOCABULARY if self.folder is None else self.text.vocabulary

    @property
    def max_length(self) -> int:
        return self.window

    def tokens_of(self, split: str) -> np.ndarray:
        """Return the tokens of `train` or `validation`, memory-mapped."""
        tokens = open_tokens(self.text, split)
        require(
            len(tokens) > self.window,
            f"a window of {self.window} needs at least {self.window + 1} tokens; the {split} split of {self.folder} "
            f"holds {len(tokens)}; use a smaller --window or more text",
        )
        return tokens

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        tokens = self.tokens_of("train")
        starts = below(len(tokens) - self.window, (count,), generator)
        return self.windows(tokens, starts.cpu().numpy()).to(generator.device)

    def test_set(self) -> Batch:
        tokens = self.tokens_of("validation")
        return self.windows(tokens, np.arange(0, len(tokens) - self.window, self.window))

    def validation_set(self) -> Batch:
        raise InputError(
            "language has no validation items beside its test windows, which are the text's validation split: windows "
            "of the train split overlap"
        )

    def accuracies(
        self, predictions: Int64[Tensor, "*seeds batch seq"], batch: Batch
    ) -> dict[str, Float[Tensor, "*seeds"]]:
        """Return the accuracy of tokens; an exact match of a window would mean nothing."""
        return {"accuracy": token_accuracy(predictions, batch, batch.scored)}

    def windows(self, tokens: np.ndarray, starts: np.ndarray) -> Batch:
        index = starts[:, None] + np.arange(self.window + 1)
        sequence = torch.from_numpy(tokens[index].astype(np.int64))
        fed, targets = sequence[:, :-1].contiguous(), sequence[:, 1:].contiguous()
        return Batch(fed, targets, torch.ones_like(fed, dtype=torch.bool))

    def loss_units(self, batch: Batch, /) -> dict[str, float]:
        """Return the factor to loss per byte, which is comparable across vocabularies."""
        return {"loss_per_byte": int(batch.scored.sum()) / self.bytes_of(batch)}

    def bytes_of(self, batch: Batch) -> int:
        """Return the number of bytes of the scored targets: summed loss / bytes is loss per byte."""
        lengths = torch.from_numpy(self.text.token_bytes().astype(np.int64))
        return int(lengths[batch.targets[batch.scored].cpu()].sum())

    def baselines(self) -> dict[str, float]:
        """Return the accuracy of the train split's most frequent token, overall and after each token."""
        if self.folder is None:
            return {}
        fed, targets = self.test_pairs()
        counts = counts_of(self.text)
        return {
            "most_frequent_token": float((targets == counts.tokens.argmax()).mean()),
            "best_guess_from_token": float((targets == counts.successors()[fed]).mean()),
        }

    def loss_baselines(self) -> dict[str, float]:
        """Return the cross-entropy, in nats per token, of unigram and bigram counts."""
        if self.folder is None:
            return {}
        fed, targets = self.test_pairs()
        counts = counts_of(self.text)
        return {"unigram": counts.unigram_loss(targets), "bigram": counts.bigram_loss(fed, targets)}

    def test_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the input tokens and the targets of all test windows, concatenated."""
        tokens = self.tokens_of("validation")
        end = (len(tokens) - 1) // self.window * self.window
        return tokens[:end], tokens[1 : end + 1]


# A folder may be regenerated while a process runs, so the digest is part of the cache key.


@functools.lru_cache(maxsize=8)
def open_text(folder: str, digest: str) -> PreparedText:
    text = read_prepared(folder)
    require(text.digest == digest, f"{folder} holds another text (digest {text.digest}) than before ({digest})")
    return text


@functools.lru_cache(maxsize=16)
def open_tokens(text: PreparedText, split: str) -> np.ndarray:
    """Return the tokens of a split; raise unless all are in the vocabulary."""
    tokens = text.tokens(split)
    highest = int(tokens.max(initial=0))
    require(
        highest < text.vocabulary,
        f"tokens must be 0..{text.vocabulary - 1}; the {split} split of {text.folder} holds {highest}: it is damaged, "
        "prepare it again with --overwrite",
    )
    return tokens


@functools.lru_cache(maxsize=2)
def counts_of(text: PreparedText) -> Counts:
    return Counts.of(open_tokens(text, "train"), text.vocabulary)
