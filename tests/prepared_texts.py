"""Prepared folders, by hand for tests that need to know every token, and of a few stories."""

import json
from pathlib import Path

import numpy as np

from icecore.store.prepared import MANIFEST, SPLITS, TOKEN_BYTES
from icecore.text.prepare import Prepared, Settings, prepare_text
from icecore.text.sources import find_sources

END = "<|endoftext|>"
STORIES = ["One cat.\nIt sat.", "Two dogs ran, “über” fast.", "Three birds 🐦 sang.", "Four fish swam."]


def made_by_hand(folder: Path, train, validation, vocabulary: int, token_bytes=None, digest: str = "by hand") -> Path:
    """A folder as `icecore prepare` would leave it, but for the tokenizer."""
    folder.mkdir(exist_ok=True)
    splits = dict(zip(SPLITS, (train, validation), strict=True))
    for split, tokens in splits.items():
        np.save(folder / SPLITS[split], np.array(tokens, dtype=np.uint16))
    np.save(folder / TOKEN_BYTES, np.array(token_bytes or [1] * vocabulary, dtype=np.uint32))
    counts = {split: {"tokens": len(tokens)} for split, tokens in splits.items()}
    manifest = {"digest": digest, "vocabulary": vocabulary, "end_token": 0, "splits": counts}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def stories_file(folder: Path) -> Path:
    path = folder / "corpus.txt"
    path.write_text(f"\n{END}\n".join(STORIES) + f"\n{END}\n", encoding="utf-8")
    return path


def prepare(
    folder: Path, source: Path, validation: Path | str | None = None, vocabulary: int = 300, **flags
) -> Prepared:
    settings = Settings("mine", vocabulary)
    text = None if validation is None else str(validation)
    sources = find_sources("mine", str(source), text, settings.validation_share)
    return prepare_text(settings, sources, folder, **flags)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
