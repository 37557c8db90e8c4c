"""Readers of documents: plain text, JSON, JSON lines, parquet. Never the whole file in memory."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from icecore.errors import InputError, require

END = "<|endoftext|>"  # separates documents, and is the token after each
FIELDS = ("text", "story")  # names of a record's document field
ENCODING = "utf-8-sig"  # UTF-8, with or without a byte-order mark
CHUNK = 2**20  # characters read at a time
LONGEST = 2**26  # characters per document: if longer, the separators are missing


def documents_in(path: Path) -> Iterator[str]:
    """Yield a file's documents in order, white space stripped; errors name file and line."""
    try:
        yield from READERS[path.suffix.lower()](path)
    except UnicodeDecodeError:
        raise InputError(
            f"{path}, line {undecodable_line(path)} is not UTF-8; convert the file (iconv -t UTF-8) or delete the line"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def pieces(text: str) -> list[str]:
    """Split a text into documents; normalize line ends, as reading a file does."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    parts = [part.strip() for part in plain.split(END)]
    return parts[:-1] if len(parts) > 1 and not parts[-1] else parts


def undecodable_line(path: Path) -> int:
    """Return the number of the first line that is not UTF-8."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    raise AssertionError(f"every line of {path} is UTF-8")


def read_text(path: Path) -> Iterator[str]:
    with path.open(encoding=ENCODING) as stream:
        rest, line = "", 1
        while chunk := stream.read(CHUNK):
            *whole, rest = (rest + chunk).split(END)
            for part in whole:
                line += part.count("\n")
                yield part.strip()
            require_short(len(rest), f"{path}, line {line}")
        if rest.strip():
            yield rest.strip()


def read_json_lines(path: Path) -> Iterator[str]:
    with path.open(encoding=ENCODING) as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise broken(path, number, error) from None
                yield from pieces(text_of(record, f"{path}:{number}"))


def read_json_list(path: Path) -> Iterator[str]:
    with path.open(encoding=ENCODING) as stream:
        text = JsonText(path, stream)
        text.expect("[")
        is_over = text.next() == "]"
        while not is_over:
            record = text.value()
            yield from pieces(text_of(record, f"{path}:{text.line}"))
            is_over = text.next() == "]"
            if not is_over:
                text.expect(",")
        text.expect("]")
        text.expect_end()


class JsonText:
    """JSON read on demand; text before `at` is consumed."""

    def __init__(self, path: Path, stream: IO[str]) -> None:
        self.path, self.stream = path, stream
        self.text, self.at, self.line = "", 0, 1
        self.decode = json.JSONDecoder().raw_decode

    def read_more(self) -> bool:
        rest = self.text[self.at :]
        require_short(len(rest), f"{self.path}:{self.line}")
        chunk = self.stream.read(max(CHUNK, len(rest)))
        self.text, self.at = rest + chunk, 0
        return bool(chunk)

    def next(self) -> str:
        """Return the next character that is not white space, without consuming it."""
        while True:
            while self.at < len(self.text):
                character = self.text[self.at]
                if not character.isspace():
                    return character
                self.pass_to(self.at + 1)
            if not self.read_more():
                raise broken(self.path, self.line, ValueError("the list does not end: is the file cut off?"))

    def expect(self, character: str) -> None:
        if self.next() != character:
            found = self.text[self.at]
            raise broken(self.path, self.line, ValueError(f"expected '{character}', found '{found}'"))
        self.pass_to(self.at + 1)

    def expect_end(self) -> None:
        while not (rest := self.text[self.at :].strip()):
            self.pass_to(len(self.text))
            if not self.read_more():
                return
        self.next()
        reason = f"'{rest[:10]}' follows the list: a file must be one list; put one record per line into a .jsonl"
        raise broken(self.path, self.line, ValueError(reason))

    def value(self) -> object:
        self.next()
        while True:
            try:
                value, end = self.decode(self.text, self.at)
            except json.JSONDecodeError as error:
                line = self.line + self.text.count("\n", self.at, error.pos)
                if not self.read_more():  # otherwise the chunk may just end inside the value
                    raise broken(self.path, line, ValueError(error.msg)) from None
                continue
            except (ValueError, RecursionError) as error:  # thousands of digits, a thousand brackets
                raise broken(self.path, self.line, error) from None
            self.pass_to(end)
            return value

    def pass_to(self, end: int) -> None:
        self.line += self.text.count("\n", self.at, end)
        self.at = end


def read_parquet(path: Path) -> Iterator[str]:
    try:
        from pyarrow import ArrowException  # type: ignore[import-not-found]
        from pyarrow.parquet import ParquetFile  # type: ignore[import-not-found]
    except ImportError:
        raise InputError(f"{path}: parquet needs the library pyarrow: pip install 'icecore[language]'") from None
    try:
        with ParquetFile(path) as file:
            names = file.schema_arrow.names
            column = next((field for field in FIELDS if field in names), None)
            if column is None:
                raise InputError(f"{path} has no column {' or '.join(FIELDS)}; it has: {', '.join(names)}")
            for batch in file.iter_batches(batch_size=1024, columns=[column]):
                for row, text in enumerate(batch.column(0).to_pylist()):
                    yield from pieces(text_of({column: text}, f"{path}, row {row} of a batch"))
    except (ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is not a complete parquet file ({reason}); download it again") from error


def text_of(record: object, where: str) -> str:
    """Return a record's document: the record itself or its document field; null is an empty one."""
    if isinstance(record, dict):
        field = next((name for name in FIELDS if name in record), None)
        if field is None:
            raise InputError(f"{where} has no field {' or '.join(FIELDS)}; it has: {', '.join(map(str, record))}")
        record = "" if record[field] is None else record[field]
    return checked_text(record, where)


def checked_text(text: object, where: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"{where} must be a text, or have one in its field {' or '.join(FIELDS)}, got {text!r:.40}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{where} has half of a surrogate pair, which is not a character; delete it") from None
    return text


def require_short(length: int, where: str) -> None:
    require(
        length <= LONGEST,
        f"{where} begins a document of over {LONGEST:,} characters: put {END} between documents",
    )


def broken(path: Path, line: int, error: Exception) -> InputError:
    return InputError(f"{path}:{line} cannot be parsed as JSON ({error}); fix or delete the line")


READERS: dict[str, Callable[[Path], Iterator[str]]] = {
    ".txt": read_text,
    ".json": read_json_list,
    ".jsonl": read_json_lines,
    ".parquet": read_parquet,
}
