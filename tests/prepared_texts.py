"""Prepared folders made by hand, for tests that need to know every token."""

import json
from pathlib import Path

import numpy as np

from icecore.store.prepared import MANIFEST, SPLITS, TOKEN_BYTES


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
