"""Preparing a text: every kind of file, splits, bytes, and input that is wrong."""

import json
import sys
import types

import numpy as np
import pytest
from prepared_texts import END, STORIES, contents, prepare, stories_file

from icecore.cli import main
from icecore.errors import InputError
from icecore.store.prepared import OUTPUTS, read_prepared
from icecore.text import TextOfTokens, formats, load_tokenizer
from icecore.text.prepare import Settings, prepare_text
from icecore.text.sources import BUILT_IN_FILE, find_sources
from icecore.text.tokenizer import byte_alphabet


@pytest.fixture
def file(tmp_path):
    return stories_file(tmp_path)


def documents_of(text, split) -> list[str]:
    """The documents, by the tokenizer's own decoder."""
    tokens = text.tokens(split).tolist()
    assert tokens[-1] == text.end_token
    tokenizer, found, one = load_tokenizer(text.folder), [], []
    for token in tokens:
        if token == text.end_token:
            found.append(tokenizer.decode(one))
            one = []
        else:
            one.append(token)
    return found


def test_documents_come_back_as_they_were_and_the_last_are_held_out(tmp_path, file):
    text = prepare(tmp_path / "out", file).text
    assert documents_of(text, "train") == STORIES[:3]
    assert documents_of(text, "validation") == STORIES[3:]
    assert sorted(path.name for path in text.folder.iterdir()) == sorted([*OUTPUTS, "manifest.json"])


def test_the_manifest_says_what_there_is(tmp_path, file):
    text = prepare(tmp_path / "out", file).text
    train = text.manifest["splits"]["train"]
    assert train["documents"] == 3
    assert train["bytes"] == sum(len(story.encode()) for story in STORIES[:3])
    assert train["tokens"] == len(text.tokens("train"))
    assert text.manifest["made_from"]["validation_from"] == "the last 0.05 of the documents"
    assert text.manifest["made_from"]["train"][0]["name"] == "corpus.txt"
    assert text.manifest["made_from"]["train"][0]["bytes"] == file.stat().st_size
    assert str(tmp_path) not in json.dumps(text.manifest)


def test_each_token_stands_for_its_bytes(tmp_path, file):
    text = prepare(tmp_path / "out", file).text
    tokens, lengths = text.tokens("train"), text.token_bytes()
    assert lengths[text.end_token] == 0
    assert (lengths[1:] >= 1).all()
    ends = np.flatnonzero(tokens == text.end_token)
    per_document = np.add.reduceat(lengths[tokens], np.concatenate([[0], ends[:-1] + 1]))
    assert per_document.tolist() == [len(story.encode()) for story in STORIES[:3]]


def test_text_comes_out_of_tokens_one_by_one_with_whole_characters(tmp_path, file):
    text = prepare(tmp_path / "out", file, vocabulary=257).text  # a token a byte
    reader = TextOfTokens(load_tokenizer(text.folder))
    assert [reader.add(token) for token in load_tokenizer(text.folder).encode("🐦!").ids] == ["", "", "", "🐦", "!"]
    reader.add(load_tokenizer(text.folder).encode("🐦").ids[0])
    assert reader.end() == "\ufffd"


def test_the_byte_alphabet_is_that_of_the_library():
    from tokenizers.pre_tokenizers import ByteLevel

    alphabet = byte_alphabet()
    assert set(alphabet) == set(ByteLevel.alphabet())
    assert sorted(alphabet.values()) == list(range(256))
    assert (alphabet["Ġ"], alphabet["Ċ"], alphabet["a"]) == (ord(" "), ord("\n"), ord("a"))


def test_the_tokenizer_knows_nothing_of_the_validation_text(tmp_path, file):
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("zzzz zzzz")
    second.write_text("qqqq qqqq")
    outputs = [prepare(tmp_path / path.stem, file, path).text.folder for path in (first, second)]
    tokenizers = [(folder / "tokenizer.json").read_bytes() for folder in outputs]
    assert tokenizers[0] == tokenizers[1]
    assert read_prepared(outputs[0]).digest != read_prepared(outputs[1]).digest


def test_repeated_it_has_the_same_bytes(tmp_path, file):
    first, second = (prepare(tmp_path / name, file).text for name in ("a", "b"))
    assert contents(first.folder) == contents(second.folder)


def test_arrays_open_with_numpy_and_large_vocabularies_have_wider_tokens(tmp_path):
    from icecore.text.arrays import write_array
    from icecore.text.tokenizer import token_type

    assert (token_type(65_536), token_type(65_537)) == (np.uint16, np.uint32)
    path = tmp_path / "tokens.npy"
    write_array(path, [np.array([1, 2]), np.array([65_535])], token_type(65_536))
    loaded = np.load(path, mmap_mode="r")
    assert loaded.dtype == np.uint16
    assert loaded.tolist() == [1, 2, 65_535]


@pytest.mark.parametrize("chunk", [1, 7, 2**20])
def test_every_kind_of_file_has_the_same_documents(tmp_path, monkeypatch, file, chunk):
    monkeypatch.setattr(formats, "CHUNK", chunk)
    records = [{"id": place, "story": story} for place, story in enumerate(STORIES)]
    files = {
        "strings.json": json.dumps(STORIES, indent=1),
        "records.json": "\ufeff" + json.dumps(records, ensure_ascii=False),
        "strings.jsonl": "\n\n".join(map(json.dumps, STORIES)),
        "records.jsonl": "\r\n".join(json.dumps({"text": story}) for story in STORIES),
        "one.json": json.dumps([END.join(STORIES) + END]) + "\n\n",
        "windows.json": json.dumps([story.replace("\n", "\r\n") for story in STORIES]),
        "windows.txt": file.read_text(encoding="utf-8").replace("\n", "\r\n").rstrip(),
    }
    assert list(formats.documents_in(file)) == STORIES
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode())
        assert list(formats.documents_in(tmp_path / name)) == STORIES, name


def test_no_text_is_an_empty_document(tmp_path):
    path = tmp_path / "stories.jsonl"
    path.write_text('{"text": "A cat."}\n{"text": null}\n{"story": ""}\n')
    assert list(formats.documents_in(path)) == ["A cat.", "", ""]
    path.write_text("null\n")
    with pytest.raises(InputError, match="must be a text"):
        list(formats.documents_in(path))


def test_parquet_has_the_same_documents_and_a_cut_off_file_is_named(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "stories.parquet"
    parquet.write_table(pyarrow.table({"id": range(5), "text": [*STORIES, None]}), path)
    assert list(formats.documents_in(path)) == [*STORIES, ""]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"stories\.parquet is not a complete parquet file"):
        list(formats.documents_in(path))
    parquet.write_table(pyarrow.table({"id": range(5)}), path)
    with pytest.raises(InputError, match="has no column text or story; it has: id"):
        list(formats.documents_in(path))


def test_parquet_without_its_library_names_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "stories.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"pip install 'icecore\[language\]'"):
        list(formats.documents_in(path))


def test_the_hub_gives_both_splits(tmp_path, monkeypatch):
    splits = {"train": [{"text": story} for story in STORIES], "validation": [{"text": "One hen."}]}

    def load_dataset(name, split):
        assert name == "roneneldan/TinyStories"
        return splits[split]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    text = prepare_text(Settings("tinystories", 300), find_sources("tinystories", "hub", None, 0.05), tmp_path).text
    assert documents_of(text, "train") == STORIES
    assert documents_of(text, "validation") == ["One hen."]


def test_a_hub_out_of_reach_names_the_way_out(monkeypatch):
    def load_dataset(*_arguments, **_settings):
        raise ConnectionError("no\nroute")

    source = find_sources("tinystories", "hub", None, 0.05).train[0]
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(InputError, match=r"\(ConnectionError: no route\); download its files and use --from FOLDER"):
        next(source.documents())
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"needs the library datasets: pip install 'icecore\[language\]'"):
        next(source.documents())


def test_a_folder_is_read_in_order_and_its_valid_files_are_held_out(tmp_path):
    folder = tmp_path / "corpus"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.txt").write_text("from b")
    (folder / "a.jsonl").write_text('"from a"')
    (folder / "sub" / "c-valid.txt").write_text("from c")
    (folder / "notes.md").write_text("no text")
    text = prepare(tmp_path / "out", folder).text
    assert documents_of(text, "train") == ["from a", "from b"]
    assert documents_of(text, "validation") == ["from c"]
    assert text.manifest["made_from"]["validation_from"] == "files with 'valid' in their names"
    (folder / "b.txt").unlink()
    (folder / "a.jsonl").unlink()
    with pytest.raises(InputError, match="only validation files"):
        prepare(tmp_path / "other", folder)


def test_folders_named_valid_are_held_out_and_words_that_only_contain_it_are_not(tmp_path, capsys):
    folder = tmp_path / "valid texts"  # what lies above the files says nothing
    (folder / "validation").mkdir(parents=True)
    (folder / "invalidated.txt").write_text("from a")
    (folder / "validation" / "b.txt").write_text("from b")
    assert main(["prepare", "mine", "--from", str(folder), "--vocabulary", "257", "--out", str(tmp_path / "out")]) == 0
    assert "validation: files with 'valid' in their names: b.txt" in capsys.readouterr().out
    assert documents_of(read_prepared(tmp_path / "out"), "train") == ["from a"]


def test_what_is_made_in_the_folder_is_no_source(tmp_path):
    (tmp_path / "a.txt").write_text(f"from a{END}from b")
    command = ["prepare", "mine", "--from", str(tmp_path), "--vocabulary", "257", "--out", str(tmp_path / "out")]
    for flags in ([], [], ["--overwrite"]):
        assert main([*command, *flags]) == 0
    assert documents_of(read_prepared(tmp_path / "out"), "train") == ["from a"]


def test_a_file_to_validate_on_is_not_trained_on(tmp_path, monkeypatch):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("from a")
    (folder / "b.txt").write_text("from b")
    monkeypatch.chdir(tmp_path)
    text = prepare(tmp_path / "out", folder, "corpus/b.txt").text
    assert documents_of(text, "train") == ["from a"]
    assert documents_of(text, "validation") == ["from b"]


def test_empty_documents_are_skipped_and_counted(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(f"one{END}{END} \n {END}two{END}\n")
    text = prepare(tmp_path / "out", path).text
    assert text.manifest["counts"]["train"] == [{"documents": 2, "empty_documents": 2}]
    assert documents_of(text, "train") + documents_of(text, "validation") == ["one", "two"]


WRONG = [
    ("a.txt", b"fine\nfine\nbro\xffken\n", "a.txt, line 3 is not UTF-8"),
    ("a.txt", "cut off: ü".encode()[:-1], "a.txt, line 1 is not UTF-8"),
    ("a.txt", b"", "a.txt is empty"),
    ("a.txt", b" \n <|endoftext|> \n", "a.txt holds no document"),
    ("a.txt", b"only one", "one document cannot be split; give --validation FILE"),
    ("a.jsonl", b'"fine"\n{"text": \n', "a.jsonl:2 cannot be parsed as JSON"),
    ("a.jsonl", b'{"title": "x"}', "a.jsonl:1 has no field text or story; it has: title"),
    ("a.jsonl", b'"fine"\n[1]', "a.jsonl:2 must be a text, or have one in its field text or story, got [1]"),
    ("a.jsonl", b'"fine"\n{"text": 7}', "a.jsonl:2 must be a text"),
    ("a.jsonl", b'"half \\ud83d"', "a.jsonl:1 has half of a surrogate pair"),
    ("a.json", b'["one",\n"two",\n', "a.json:3 cannot be parsed as JSON (the list does not end"),
    ("a.json", b'["one",\n{"text" 5}]', "a.json:2 cannot be parsed as JSON"),
    ("a.json", b'["one",\n"two" "three"]', "a.json:2 cannot be parsed as JSON (expected ','"),
    ("a.json", b'{"text": "one"}', "a.json:1 cannot be parsed as JSON (expected '['"),
    ("a.json", b"[]", "a.json holds no document"),
    ("a.json", b'["one",]', "a.json:1 cannot be parsed as JSON"),
    (
        "a.json",
        b'["one", "two"]\n["three", "four"]',
        'a.json:2 cannot be parsed as JSON (\'["three"',
    ),
    ("a.json", b'["one", "two"] garbage', "a.json:1 cannot be parsed as JSON ('garbage' follows the list"),
    ("a.json", b"[" * 100_000, "a.json:1 cannot be parsed as JSON (maximum recursion depth"),
    ("a.json", b'["one", ' + b"1" * 5000 + b"]", "a.json:1 cannot be parsed as JSON (Exceeds the limit"),
    ("a.jsonl", b"[" * 100_000, "a.jsonl:1 cannot be parsed as JSON (maximum recursion depth"),
    ("a.csv", b"x", "is of an unknown kind; known kinds: .txt, .json"),
]


@pytest.mark.parametrize(("name", "content", "message"), WRONG)
def test_wrong_input_is_named_by_file_and_line_and_nothing_is_written(tmp_path, capsys, name, content, message):
    path, out = tmp_path / name, tmp_path / "out"
    path.write_bytes(content)
    assert main(["prepare", "mine", "--from", str(path), "--out", str(out)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
    assert not out.exists()


def test_a_document_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "CHUNK", 4)
    monkeypatch.setattr(formats, "LONGEST", 50)
    for name, text, place in (("a.txt", f"x\n{END}" + "y" * 90, ", line 2"), ("a.json", '[\n"' + "y" * 90, ":2")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=f"{name}{place} begins a document of over 50 characters"):
            list(formats.documents_in(tmp_path / name))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mine",), "say where the text of 'mine' is: --from FILE, --from FOLDER"),
        (("tinystories",), "or --from hub"),
        (("mine", "--from", "hub"), "--from hub knows only tinystories, not 'mine'"),
        (("tinystories", "--from", "hub", "--validation", "x"), "drop --validation"),
        (("mine", "--from", "missing.txt"), "there is no file or folder missing.txt"),
        (("stories", "--vocabulary", "256"), "--vocabulary must be at least 257"),
        (("stories", "--vocabulary", "100000000000"), "--vocabulary must be at most 1,048,576, got 100,000,000,000"),
        (("stories", "--validation-share", "1"), "--validation-share must be between 0 and 1, got 1"),
        (("../x", "--from", "y"), "a corpus name must consist of letters"),
        (("stories", "--out", "/dev/null/x"), "cannot create /dev/null/x"),
        (("stories", "--out", "{tmp}"), "contains files that are not a prepared text"),
        (("mine", "--from", "{tmp}/empty"), "has no files to read"),
        (("mine", "--from", "{tmp}/valid", "--validation", "{tmp}/a.txt"), "has validation files (valid.txt)"),
    ],
)
def test_wrong_flags_are_one_line_with_the_way_out(tmp_path, capsys, arguments, message):
    (tmp_path / "a.txt").write_text("precious")
    (tmp_path / "empty").mkdir()
    (tmp_path / "valid").mkdir()
    (tmp_path / "valid" / "valid.txt").write_text("held out")
    given = [argument.replace("{tmp}", str(tmp_path)) for argument in arguments]
    assert main(["prepare", *given]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
    assert (tmp_path / "a.txt").read_text() == "precious"


def test_the_stories_that_come_along_are_many_and_different():
    stories = list(formats.documents_in(BUILT_IN_FILE))
    assert len(set(stories)) == len(stories) >= 40
    assert 15_000 < BUILT_IN_FILE.stat().st_size < 25_000
