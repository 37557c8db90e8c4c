"""Prepare a text for training, in stages: killed at any point, the same call resumes and gives the same bytes."""

import contextlib
import hashlib
import itertools
import os
import platform
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import icecore
from icecore.errors import InputError, require
from icecore.store import read_json, remove_remains, try_lock, write_json, write_whole
from icecore.store.prepared import (
    MANIFEST,
    OUTPUTS,
    PLAN,
    SPLITS,
    TOKEN_BYTES,
    TOKENIZER,
    PreparedText,
    digest_of,
    read_prepared,
    require_reported,
)
from icecore.text.arrays import in_pieces, read_array, write_array
from icecore.text.formats import END
from icecore.text.replacement import built_beside, finish_replacement
from icecore.text.sources import FileSource, Source, Sources
from icecore.text.tokenizer import (
    END_TOKEN,
    KIND,
    LARGEST,
    SMALLEST,
    bytes_of_tokens,
    load_tokenizer,
    token_type,
    train_tokenizer,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Progress callback: stage, amount done, and total if known.
OnProgress = Callable[[str, int, int | None], None]

BATCH_CHARACTERS = 2**20  # characters tokenized together


@dataclass(frozen=True)
class Settings:
    """Settings that, with the sources, determine the outputs."""

    corpus: str
    vocabulary: int = 10_000  # SOURCE: appendix D.1.4
    validation_share: float = 0.05  # share of documents, without validation files

    def __post_init__(self) -> None:
        is_name = self.corpus.replace("-", "").replace("_", "").replace(".", "").isalnum()
        require(is_name, f"a corpus name must consist of letters, digits, - and _, got '{self.corpus}'")
        rule = f"--vocabulary must be at least {SMALLEST} (every byte, and the end of a document)"
        require(self.vocabulary >= SMALLEST, f"{rule}, got {self.vocabulary}")
        require(self.vocabulary <= LARGEST, f"--vocabulary must be at most {LARGEST:,}, got {self.vocabulary:,}")


@dataclass(frozen=True)
class Prepared:
    text: PreparedText
    was_there: bool  # already complete, not regenerated


def prepare_text(
    settings: Settings, sources: Sources, folder: Path, *, overwrite: bool = False, watch: OnProgress | None = None
) -> Prepared:
    """Write tokens of both splits, the tokenizer and a manifest to `folder`; skip what is already there."""
    watch = watch or ignore
    with locked(folder):
        finish_replacement(folder)
        remove_remains(folder, (*OUTPUTS, PLAN, MANIFEST))
        made_from = identity(settings, sources, watch)
        if not overwrite and is_same(folder, made_from):
            (folder / PLAN).unlink(missing_ok=True)
            return Prepared(undamaged(read_prepared(folder), watch), was_there=True)
        with built_beside(folder) if overwrite else contextlib.nullcontext(folder) as target:
            work = Work(settings, sources, target, begun(target, made_from, sources, watch), watch)
            work.make_outputs()
            write_json(target / MANIFEST, work.manifest())
            (target / PLAN).unlink()
        return Prepared(read_prepared(folder), was_there=False)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder, created if missing; remove it afterwards if it is empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot create {folder}: {error.strerror or error}; choose another --out") from error
    try:
        require(try_lock(handle), f"another process is preparing {folder}; wait for it, or choose another --out")
        yield
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):
            folder.rmdir()  # only if it is empty


def identity(settings: Settings, sources: Sources, watch: OnProgress) -> dict[str, Any]:
    """Return a comparable description of what the outputs are made from."""
    done, total = 0, sources.size

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        watch("checking sources", done, total)

    return {
        "settings": asdict(settings),
        "validation_from": sources.validation_from,
        "train": [source.identity(on_bytes) for source in sources.train],
        "validation": [source.identity(on_bytes) for source in sources.validation],
    }


def is_same(folder: Path, made_from: dict[str, Any]) -> bool:
    """Tell whether the folder is complete, not unfinished or empty; raise if it was made from something else."""
    kept = next((name for name in (MANIFEST, PLAN) if (folder / name).exists()), None)
    if kept is None:
        require(
            not any(folder.iterdir()), f"{folder} contains files that are not a prepared text; choose another --out"
        )
        return False
    stored = read_json(folder / kept)
    if not isinstance(stored, dict) or stored.get("made_from") != made_from:
        raise InputError(f"{folder} was made from other sources or settings; use --overwrite or another --out")
    if kept == PLAN and stored.get("versions") != versions():
        raise InputError(f"{folder} was begun with other versions of libraries; start again with --overwrite")
    return kept == MANIFEST


def undamaged(text: PreparedText, watch: OnProgress) -> PreparedText:
    """Return the text; raise if an output differs from the manifest."""
    require_reported(text)
    for done, name in enumerate(OUTPUTS):
        watch("checking outputs", done, len(OUTPUTS))
        path = text.folder / name
        if not path.is_file() or sha256_of(path) != text.manifest["outputs"][name]:
            raise InputError(f"{path} is missing or damaged; regenerate it with --overwrite")
    return text


def begun(folder: Path, made_from: dict[str, Any], sources: Sources, watch: OnProgress) -> dict[str, Any]:
    """Return the plan of an unfinished folder, or a new one: documents per source and per split."""
    if (folder / PLAN).exists():
        plan = read_json(folder / PLAN)
        is_plan = all(isinstance(plan.get(part), dict) for part in ("counts", "documents"))
        require(is_plan, f"{folder / PLAN} is damaged; start again with --overwrite")
        return plan
    counts = count_documents(sources, watch)
    documents = {split: sum(count["documents"] for count in each) for split, each in counts.items()}
    if not sources.validation:
        total = documents["train"]
        require(
            total > 1, "one document cannot be split; give --validation FILE, or put <|endoftext|> between documents"
        )
        held_out = min(total - 1, max(1, round(made_from["settings"]["validation_share"] * total)))
        documents = {"train": total - held_out, "validation": held_out}
    plan = {"made_from": made_from, "versions": versions(), "counts": counts, "documents": documents}
    write_json(folder / PLAN, plan)
    return plan


def count_documents(sources: Sources, watch: OnProgress) -> dict[str, list[dict[str, int]]]:
    """Count documents and empty documents per source. This reads everything once, which finds all invalid input."""
    counts: dict[str, list[dict[str, int]]] = {"train": [], "validation": []}
    characters, size = 0, sources.size
    for split, members in (("train", sources.train), ("validation", sources.validation)):
        for source in members:
            documents = empty = 0
            for document in source.documents():
                documents, empty = documents + bool(document), empty + (not document)
                characters += len(document)
                watch("counting documents", characters, size)
            name = source.path if isinstance(source, FileSource) else source
            require(documents > 0, f"{name} holds no document; name a file with text")
            counts[split].append({"documents": documents, "empty_documents": empty})
    return counts


@dataclass(frozen=True)
class Work:
    """Stages after the plan. Each writes one file atomically, and is skipped if the file exists."""

    settings: Settings
    sources: Sources
    folder: Path
    plan: dict[str, Any]
    watch: OnProgress

    def make_outputs(self) -> None:
        if not (self.folder / TOKENIZER).exists():
            tokenizer = train_tokenizer(self.documents("train", "training the tokenizer"), self.settings.vocabulary)
            with write_whole(self.folder / TOKENIZER) as stream:
                stream.write(tokenizer.to_str(pretty=True))
        tokenizer = load_tokenizer(self.folder)
        dtype = token_type(tokenizer.get_vocab_size())
        for split, name in SPLITS.items():
            if not (self.folder / name).exists():
                documents = self.documents(split, f"tokenizing {split}")
                write_array(self.folder / name, tokenized(tokenizer, documents), dtype)
        if not (self.folder / TOKEN_BYTES).exists():
            lengths = np.array([len(each) for each in bytes_of_tokens(tokenizer)])
            write_array(self.folder / TOKEN_BYTES, [lengths], np.dtype("<u4"))

    def documents(self, split: str, stage: str) -> Iterator[str]:
        """Yield the non-empty documents of a split, in order."""
        total = self.plan["documents"][split]
        is_held_out = split == "validation" and not self.sources.validation
        members = self.sources.validation if split == "validation" and not is_held_out else self.sources.train
        begin = self.plan["documents"]["train"] if is_held_out else 0
        for done, document in enumerate(itertools.islice(not_empty(members), begin, begin + total), start=1):
            yield document
            self.watch(stage, done, total)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest, counted from the outputs themselves."""
        try:
            return self.counted()
        except (IndexError, KeyError, ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
            raise InputError(
                f"{self.folder} has damaged files of an earlier try ({error}); start again with --overwrite"
            ) from error

    def counted(self) -> dict[str, Any]:
        token_bytes = read_array(self.folder / TOKEN_BYTES)
        splits = {}
        for split, name in SPLITS.items():
            tokens = read_array(self.folder / name)
            splits[split] = {
                "documents": sum(int((piece == END_TOKEN).sum()) for piece in in_pieces(tokens)),
                "bytes": sum(int(token_bytes[piece].sum()) for piece in in_pieces(tokens)),
                "tokens": len(tokens),
            }
        found = {split: counts["documents"] for split, counts in splits.items()}
        if found != self.plan["documents"]:
            raise InputError(f"the sources of {self.folder} changed while they were read; use --overwrite")
        sums = {name: sha256_of(self.folder / name) for name in OUTPUTS}
        return {
            "corpus": self.settings.corpus,
            "digest": digest_of(sums),
            "vocabulary": len(token_bytes),
            "end_token": END_TOKEN,
            "splits": splits,
            "tokenizer": {"kind": KIND, "trained_on": "train", "asked": self.settings.vocabulary, "end": END},
            "outputs": sums,
            **{name: self.plan[name] for name in ("made_from", "counts", "versions")},
        }


def not_empty(sources: Iterable[Source]) -> Iterator[str]:
    return (document for source in sources for document in source.documents() if document)


def tokenized(tokenizer: "Tokenizer", documents: Iterable[str]) -> Iterator[np.ndarray]:
    """Yield the tokens batch by batch, each document followed by the end token."""
    for batch in in_batches(documents):
        each = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
        yield np.fromiter((token for one in each for token in (*one.ids, END_TOKEN)), dtype=np.int64)


def in_batches(documents: Iterable[str]) -> Iterator[list[str]]:
    batch, characters = [], 0
    for document in documents:
        batch.append(document)
        characters += len(document)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def versions() -> dict[str, str]:
    import tokenizers

    return {
        "icecore": icecore.__version__,
        "tokenizers": tokenizers.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def ignore(_stage: str, _done: int, _total: int | None) -> None:
    pass
