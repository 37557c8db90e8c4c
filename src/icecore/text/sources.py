"""Sources of documents: files, folders of files, the hub, or the built-in stories."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from icecore.errors import InputError, in_one_line, require
from icecore.text.formats import READERS, documents_in, pieces

HUB = "hub"
HUB_DATASETS = {"tinystories": "roneneldan/TinyStories"}
BUILT_IN = "stories"
BUILT_IN_FILE = Path(__file__).parent / "stories.txt"
CHUNK = 2**20

OnBytes = Callable[[int], None]


class Source(Protocol):
    """Documents in a fixed order, which can be read repeatedly."""

    def documents(self) -> Iterator[str]:
        """Yield every document, white space stripped; an empty one is an empty string."""
        ...

    def identity(self, on_bytes: OnBytes) -> dict[str, Any]:
        """Return name, size and SHA-256, which identify the source; report bytes read to `on_bytes`."""
        ...


@dataclass(frozen=True)
class FileSource:
    path: Path

    def documents(self) -> Iterator[str]:
        return documents_in(self.path)

    def identity(self, on_bytes: OnBytes) -> dict[str, Any]:
        sha, size = hashlib.sha256(), 0
        try:
            with self.path.open("rb") as stream:
                while chunk := stream.read(CHUNK):
                    sha.update(chunk)
                    size += len(chunk)
                    on_bytes(len(chunk))
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror or error}") from error
        require(size > 0, f"{self.path} is empty; name a file with text")
        return {"name": self.path.name, "bytes": size, "sha256": sha.hexdigest()}


@dataclass(frozen=True)
class HubSource:
    dataset: str
    split: str

    def documents(self) -> Iterator[str]:
        for row in self.rows():
            yield from pieces(row["text"] or "")

    def rows(self) -> Iterable[Any]:
        try:
            import datasets  # type: ignore[import-not-found]
        except ImportError:
            raise InputError("--from hub needs the library datasets: pip install 'icecore[language]'") from None
        try:
            return datasets.load_dataset(self.dataset, split=self.split)
        except Exception as error:  # anything that network, hub or disk may raise
            reason = in_one_line(error)[:200]
            raise InputError(
                f"{self.dataset} cannot be loaded from the hub ({reason}); download its files and use --from FOLDER"
            ) from error

    def identity(self, on_bytes: OnBytes) -> dict[str, Any]:
        sha, size = hashlib.sha256(), 0
        for document in self.documents():
            data = document.encode()
            sha.update(f"{len(data)} ".encode() + data)
            size += len(data)
            on_bytes(len(data))
        return {"name": f"{self.dataset}, {self.split}", "bytes": size, "sha256": sha.hexdigest()}


@dataclass(frozen=True)
class Sources:
    """Training sources and, unless a share of them is held out, validation sources."""

    train: tuple[Source, ...]
    validation: tuple[Source, ...]
    validation_from: str  # in words, for the manifest

    @property
    def size(self) -> int | None:
        """Return the bytes of all files; None if not known in advance."""
        each = (*self.train, *self.validation)
        files = [source.path for source in each if isinstance(source, FileSource)]
        return sum(path.stat().st_size for path in files) if len(files) == len(each) else None


def find_sources(
    name: str, given: str | None, validation: str | None, share: float, output: Path | None = None
) -> Sources:
    """Return the sources of a corpus: `given` is a file, a folder or `hub`, or None for the built-in stories.

    Files in `output` are ignored, even if it is inside the folder.
    """
    require(0 < share < 1, f"--validation-share must be between 0 and 1, got {share}")
    if given == HUB:
        if name not in HUB_DATASETS:
            raise InputError(f"--from hub knows only {', '.join(HUB_DATASETS)}, not '{name}'; use --from FOLDER")
        require(validation is None, "the hub has a validation split of its own; drop --validation")
        dataset = HUB_DATASETS[name]
        return Sources((HubSource(dataset, "train"),), (HubSource(dataset, "validation"),), "the hub")
    if given is None:
        require(name == BUILT_IN, f"say where the text of '{name}' is: --from FILE, --from FOLDER{hub_hint(name)}")
        given = str(BUILT_IN_FILE)
    files = files_of(Path(given), output)
    held_out = [path for path in files if is_validation(path.relative_to(given))] if Path(given).is_dir() else []
    if held_out and validation is not None:
        raise InputError(f"{given} has validation files ({held_out[0].name}); drop --validation, or remove them")
    words = "files with 'valid' in their names" if held_out else f"the last {share:g} of the documents"
    if validation is not None:
        held_out, words = files_of(Path(validation), output), "files of their own"
    kept_out = {path.resolve() for path in held_out}
    train = [path for path in files if path.resolve() not in kept_out]
    require(bool(train), f"{given} has only validation files; add files to train on")
    return Sources(tuple(map(FileSource, train)), tuple(map(FileSource, held_out)), words)


def hub_hint(name: str) -> str:
    return f" or --from {HUB}" if name in HUB_DATASETS else ""


def is_validation(path: Path) -> bool:
    """Tell whether the name of a file or of a parent folder has the word `valid` or `validation`."""
    return any({"valid", "validation"} & set(re.split("[^a-z]+", part.lower())) for part in path.parts)


def files_of(path: Path, without: Path | None = None) -> list[Path]:
    """Return the file, or all readable files of a folder and its subfolders, sorted."""
    kinds = ", ".join(READERS)
    if path.is_dir():
        found = sorted(
            each
            for each in path.rglob("*")
            if each.suffix.lower() in READERS
            and each.is_file()
            and not each.name.startswith(".")
            and (without is None or not each.resolve().is_relative_to(without.resolve()))
        )
        require(bool(found), f"{path} has no files to read; known kinds: {kinds}")
        return found
    require(path.exists(), f"there is no file or folder {path}; check the path")
    require(path.suffix.lower() in READERS, f"{path} is of an unknown kind; known kinds: {kinds}")
    return [path]
