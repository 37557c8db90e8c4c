"""Byte-level BPE, trained only on the train split; the same text gives the same tokenizer, byte for byte."""

import codecs
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from icecore.errors import InputError
from icecore.store.prepared import TOKENIZER
from icecore.store.reading import require_regular
from icecore.text.formats import END

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SMALLEST = 257  # every byte, and the end of a document
LARGEST = 2**20  # the library allocates this many before it starts
END_TOKEN = 0  # special tokens come first
KIND = "byte-level BPE, parted as GPT-2 does"


def train_tokenizer(documents: Iterable[str], vocabulary: int) -> "Tokenizer":
    """Train a tokenizer of up to `vocabulary` tokens; fewer if the text has no more pairs to merge."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=sorted(byte_alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return tokenizer


def load_tokenizer(folder: Path) -> "Tokenizer":
    """Load the tokenizer of a prepared folder."""
    from tokenizers import Tokenizer

    path = folder / TOKENIZER
    try:
        require_regular(path)
    except FileNotFoundError:
        raise InputError(f"{path} is missing; prepare the text again with --overwrite") from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"{path} is damaged ({error}); prepare the text again with --overwrite") from error


def byte_alphabet() -> dict[str, int]:
    """Return the byte of each character inside a token; SOURCE: GPT-2's bytes_to_unicode.

    Printable Latin-1 characters stand for themselves, characters from 256 on for the other bytes.
    """
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + place): byte for place, byte in enumerate(hidden)}


def bytes_of_tokens(tokenizer: "Tokenizer") -> list[bytes]:
    """Return the bytes of each token; none for the end of a document."""
    alphabet = byte_alphabet()
    names = {token: name for name, token in tokenizer.get_vocab().items()}
    return [
        b"" if token == END_TOKEN else bytes(alphabet[character] for character in names[token])
        for token in range(len(names))
    ]


def token_type(vocabulary: int) -> np.dtype:
    return np.dtype("<u2" if vocabulary <= 2**16 else "<u4")


class TextOfTokens:
    """Streaming decoder: returns a character once all of its bytes have arrived."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self.bytes_of = bytes_of_tokens(tokenizer)
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token: int) -> str:
        return self.decoder.decode(self.bytes_of[token])

    def end(self) -> str:
        """Return the rest; an incomplete character becomes a replacement character."""
        return self.decoder.decode(b"", final=True)
