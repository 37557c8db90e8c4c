"""`icecore prepare`: a text made ready for the task `language`."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.output import JSON_OPTION, print_json, print_table
from icecore.cli.progress import stage_progress
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.store.prepared import PreparedText

VOCABULARY = {"stories": 1_000}  # of a text too small for the paper's 10,000


def command(
    corpus: str = typer.Argument(
        ..., help="The corpus's name: stories (comes with icecore), tinystories, or any name for a text of your own."
    ),
    source: str | None = typer.Option(
        None, "--from", metavar="FILE|FOLDER|hub", help="Where the text is; 'hub' downloads tinystories."
    ),
    validation: str | None = typer.Option(
        None, metavar="FILE|FOLDER", help="Text to validate on. Default: a folder's files with 'valid' in their names."
    ),
    validation_share: float = typer.Option(
        0.05, help="Without validation files, this share of the documents, the last ones, is held out."
    ),
    out: Path | None = typer.Option(None, help="Folder to write. Default: data/CORPUS."),
    vocabulary: int | None = typer.Option(
        None, help="Tokens, with every byte and <|endoftext|> among them. Default: 10,000 (of stories 1,000)."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Start again, whatever the folder was made from."),
    json: bool = JSON_OPTION,
) -> None:
    """Make a text ready for training: a tokenizer, the tokens of both splits, and a manifest.

    Files: .txt with <|endoftext|> between documents; .json, a list of texts or of records with a field text or
    story; .jsonl, one such text or record a line; .parquet with such a column (and 'hub') after
    pip install 'icecore\\[language]'. The tokenizer, byte-level BPE, is trained on the train split alone.

    icecore prepare stories, then: icecore train language --folder data/stories --window 64 --steps 100
    --warmup-steps 10

    Killed or interrupted, the same command goes on where it was and ends with the same bytes; a complete folder
    is shown, not made again. Wrong input is named by file and line before anything is written.
    """
    from icecore.text.prepare import Settings, prepare_text
    from icecore.text.sources import find_sources

    if vocabulary is None:
        vocabulary = VOCABULARY.get(corpus, Settings.vocabulary)
    settings = Settings(corpus, vocabulary, validation_share)
    folder = out or Path("data") / corpus
    sources = find_sources(corpus, source, validation, validation_share, folder)
    began = time.monotonic()
    try:
        with stage_progress() as watch:
            prepared = prepare_text(settings, sources, folder, overwrite=overwrite, watch=watch)
    except KeyboardInterrupt:
        print("what is done so far is kept; the same command goes on", file=sys.stderr)
        raise
    seconds = time.monotonic() - began
    if json:
        facts = {"folder": str(folder), "was_there": prepared.was_there, "seconds": seconds}
        print_json({**facts, **prepared.text.manifest})
    else:
        report(prepared.text, prepared.was_there, seconds)


def prepare_stories(folder: Path) -> None:
    """The stories that come with icecore, as `icecore prepare stories` makes them."""
    from icecore.text.prepare import Settings, prepare_text
    from icecore.text.sources import BUILT_IN, find_sources

    settings = Settings(BUILT_IN, VOCABULARY[BUILT_IN])
    prepare_text(settings, find_sources(BUILT_IN, None, None, settings.validation_share), folder)


def report(text: "PreparedText", was_there: bool, seconds: float) -> None:
    manifest = text.manifest
    title = f"{manifest['corpus']}, {text.vocabulary:,} tokens in the vocabulary, digest {text.digest}"
    rows = [
        (split, f"{row['documents']:,}", f"{row['bytes']:,}", f"{row['tokens']:,}", bytes_a_token(row))
        for split, row in manifest["splits"].items()
    ]
    print_table(Table(title, ("split", "documents", "bytes", "tokens", "bytes a token"), rows, left=("split",)))
    asked = manifest["tokenizer"]["asked"]
    if text.vocabulary < asked:
        print(f"the text has no more than {text.vocabulary:,} tokens to find; {asked:,} were asked for")
    empty = sum(count["empty_documents"] for each in manifest["counts"].values() for count in each)
    if empty:
        print(f"{empty:,} empty documents were left out")
    files = ", ".join(one["name"] for one in manifest["made_from"]["validation"])
    print(f"validation: {manifest['made_from']['validation_from']}{f': {files}' if files else ''}")
    print(f"already prepared in {text.folder}" if was_there else f"prepared in {text.folder} in {seconds:.1f} s")


def bytes_a_token(row: dict[str, int]) -> str:
    return f"{row['bytes'] / row['tokens']:.3f}"
