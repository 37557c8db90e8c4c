"""`icecore prepare`: prepare a text for the task `language`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from icecore.cli.output import JSON_OPTION, print_json, print_table, say, say_aside
from icecore.cli.progress import stage_progress
from icecore.reporting.table import Table

if TYPE_CHECKING:
    from icecore.store.prepared import PreparedText

VOCABULARY = {"stories": 1_000}  # too small for the paper's 10,000


def command(
    corpus: str = typer.Argument(
        ..., help="stories (included in icecore), tinystories, or a name of your choice for your own text."
    ),
    source: str | None = typer.Option(
        None, "--from", metavar="FILE|FOLDER|hub", help="Source of the text; hub downloads tinystories."
    ),
    validation: str | None = typer.Option(
        None, metavar="FILE|FOLDER", help="Validation text. Default: the folder's files with 'valid' in their names."
    ),
    validation_share: float = typer.Option(
        0.05, help="Without validation files, hold out this share of the documents, from the end."
    ),
    out: Path | None = typer.Option(None, help="Folder to write. Default: data/CORPUS."),
    vocabulary: int | None = typer.Option(
        None, help="Vocabulary size, including all bytes and <|endoftext|>. Default: 10,000; for stories, 1,000."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Start again, even if the folder holds another text."),
    json: bool = JSON_OPTION,
) -> None:
    """Prepare a text for language modeling.

    [bold]Examples[/bold]

    icecore prepare stories --out stories
    icecore train language --folder stories --window 64 --width 64 --steps 600
    icecore prepare mine --from my_texts --vocabulary 4000

    The folder gets a tokenizer, the tokens of both splits and a manifest.

    Files: .txt with <|endoftext|> between documents; .json, a list of texts or of records with a field text or story;
    .jsonl, one text or record per line; .parquet with such a column. Parquet and hub need
    pip install 'icecore\\[language]'. The tokenizer is byte-level BPE, trained on the train split only.

    A killed or interrupted command continues when repeated, and ends with the same bytes; a complete folder is shown,
    not regenerated. With --overwrite, the old text stays until the new one is complete. Errors in the input are
    reported by file and line before anything is written.
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
        line = "nothing was replaced" if overwrite else "finished files are saved; the same command continues"
        say_aside(line)
        raise
    seconds = time.monotonic() - began
    if json:
        facts = {"folder": str(folder), "was_there": prepared.was_there, "seconds": seconds}
        print_json({**facts, **prepared.text.manifest})
    else:
        report(prepared.text, prepared.was_there, seconds)


def prepare_stories(folder: Path) -> None:
    """Prepare the stories included in icecore, as `icecore prepare stories` does."""
    from icecore.text.prepare import Settings, prepare_text
    from icecore.text.sources import BUILT_IN, find_sources

    settings = Settings(BUILT_IN, VOCABULARY[BUILT_IN])
    prepare_text(settings, find_sources(BUILT_IN, None, None, settings.validation_share), folder)


def report(text: "PreparedText", was_there: bool, seconds: float) -> None:
    manifest = text.manifest
    title = f"{manifest['corpus']}, {text.vocabulary:,} tokens in the vocabulary, digest {text.digest}"
    rows = [
        (split, f"{row['documents']:,}", f"{row['bytes']:,}", f"{row['tokens']:,}", bytes_per_token(row))
        for split, row in manifest["splits"].items()
    ]
    print_table(Table(title, ("split", "documents", "bytes", "tokens", "bytes per token"), rows, left=("split",)))
    asked = manifest["tokenizer"]["asked"]
    if text.vocabulary < asked:
        say(f"the text is too small for {asked:,} tokens; its vocabulary has {text.vocabulary:,}")
    empty = sum(count["empty_documents"] for each in manifest["counts"].values() for count in each)
    if empty:
        say(f"{empty:,} empty documents were skipped")
    files = ", ".join(one["name"] for one in manifest["made_from"]["validation"])
    say(f"validation: {manifest['made_from']['validation_from']}{f': {files}' if files else ''}")
    say(f"already prepared in {text.folder}" if was_there else f"prepared in {text.folder} in {seconds:.1f} s")


def bytes_per_token(row: dict[str, int]) -> str:
    return f"{row['bytes'] / row['tokens']:.3f}"
