"""Prepared text on disk: tokens of two splits, the tokenizer, and last a manifest, whose presence means complete."""

import hashlib
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icecore.errors import InputError, require
from icecore.store.files import read_json
from icecore.store.reading import require_regular

if TYPE_CHECKING:
    import numpy as np

MANIFEST, PLAN, TOKENIZER, TOKEN_BYTES = "manifest.json", "plan.json", "tokenizer.json", "token_bytes.npy"
SPLITS = {"train": "train.npy", "validation": "validation.npy"}
NEW = ".new"  # folder of a text that will replace the one beside it
OUTPUTS = (TOKENIZER, *SPLITS.values(), TOKEN_BYTES)


@dataclass(frozen=True, eq=False)  # compared and hashed by identity
class PreparedText:
    """Manifest of a folder and its memory-mapped arrays."""

    folder: Path
    manifest: Mapping[str, Any] = field(repr=False)

    @property
    def digest(self) -> str:
        """Return a hash of the outputs, which identifies the text in any folder."""
        return self.manifest["digest"]

    @property
    def vocabulary(self) -> int:
        return self.manifest["vocabulary"]

    @property
    def end_token(self) -> int:
        """Return the token that follows every document."""
        return self.manifest["end_token"]

    def tokens(self, split: str) -> "np.ndarray":
        """Return the tokens of `train` or `validation`, all documents concatenated; only what is read is loaded."""
        return self.array(SPLITS[split], self.manifest["splits"][split]["tokens"])

    def token_bytes(self) -> "np.ndarray":
        """Return the number of text bytes of each token."""
        return self.array(TOKEN_BYTES, self.vocabulary)

    def array(self, name: str, length: int) -> "np.ndarray":
        import numpy as np

        path = self.folder / name
        way_out = "prepare the text again with --overwrite"
        try:
            require_regular(path)
            values = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise InputError(f"{path} is missing; {way_out}") from None
        except (OSError, ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:  # the last two: its header
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} is damaged ({reason}); {way_out}") from error
        is_right = isinstance(values, np.ndarray) and values.ndim == 1  # not an archive of several
        is_right = is_right and np.issubdtype(values.dtype, np.unsignedinteger) and len(values) == length
        require(is_right, f"{path} is not the array of {length:,} tokens that {MANIFEST} names; {way_out}")
        return values


def read_prepared(folder: Path | str) -> PreparedText:
    """Return the prepared text in a folder; raise if it is missing or unfinished."""
    folder = Path(folder)
    require(folder.is_dir(), f"there is no folder {folder}; make it with icecore prepare NAME --out {folder}")
    if not (folder / MANIFEST).exists():
        if (folder / PLAN).exists() or (folder / NEW / MANIFEST).exists():
            raise InputError(f"{folder} is not fully prepared yet; finish it with the same icecore prepare command")
        raise InputError(f"{folder} is not a prepared text: it has no {MANIFEST}; make one with icecore prepare")
    manifest = read_json(folder / MANIFEST)
    try:
        return checked(PreparedText(folder, manifest))
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / MANIFEST} is not an icecore prepare manifest ({error}); prepare again") from error


def checked(text: PreparedText) -> PreparedText:
    """Return the text; raise unless its manifest has all that is read later."""
    sizes = (text.vocabulary, text.end_token, *(int(text.manifest["splits"][split]["tokens"]) for split in SPLITS))
    if not isinstance(text.digest, str) or min(sizes) < 0:
        raise TypeError("digest or sizes")
    if text.end_token >= text.vocabulary:
        raise TypeError("end_token")
    return text


def require_reported(text: PreparedText) -> None:
    """Raise unless the manifest has what only `icecore prepare` reads."""
    manifest = text.manifest
    try:
        _ = [manifest["corpus"], int(manifest["tokenizer"]["asked"]), [manifest["outputs"][name] for name in OUTPUTS]]
        _ = [int(manifest["splits"][split][name]) for split in SPLITS for name in ("documents", "bytes")]
        _ = [int(count["empty_documents"]) for each in manifest["counts"].values() for count in each]
        _ = manifest["made_from"]["validation_from"], [each["name"] for each in manifest["made_from"]["validation"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        where = text.folder / MANIFEST
        raise InputError(
            f"{where} is damaged ({type(error).__name__}: {error}); regenerate it with --overwrite"
        ) from None


def digest_of(sums: Mapping[str, str]) -> str:
    """Return the digest of a prepared text from the SHA-256 of each output."""
    lines = "".join(f"{name} {sums[name]}\n" for name in OUTPUTS)
    return hashlib.sha256(lines.encode()).hexdigest()[:16]
