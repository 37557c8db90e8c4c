"""Preparing a text: every kind of file, splits, bytes, going on after kill -9, and input that is wrong."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from icecore.cli import main
from icecore.errors import InputError
from icecore.store.prepared import OUTPUTS, read_prepared
from icecore.text import TextOfTokens, formats, load_tokenizer
from icecore.text.prepare import Settings, prepare_text
from icecore.text.sources import BUILT_IN_FILE, find_sources
from icecore.text.tokenizer import byte_alphabet

END = "<|endoftext|>"
STORIES = ["One cat.\nIt sat.", "Two dogs ran, “über” fast.", "Three birds 🐦 sang.", "Four fish swam."]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(f"\n{END}\n".join(STORIES) + f"\n{END}\n", encoding="utf-8")
    return path


def prepare(folder, source, validation=None, vocabulary=300, **flags):
    settings = Settings("mine", vocabulary)
    text = None if validation is None else str(validation)
    sources = find_sources("mine", str(source), text, settings.validation_share)
    return prepare_text(settings, sources, folder, **flags)


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


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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
        "one.json": json.dumps([END.join(STORIES) + END]),
        "windows.txt": file.read_text(encoding="utf-8").replace("\n", "\r\n").rstrip(),
    }
    assert list(formats.documents_in(file)) == STORIES
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode())
        assert list(formats.documents_in(tmp_path / name)) == STORIES, name


def test_parquet_has_the_same_documents_and_a_cut_off_file_is_named(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "stories.parquet"
    parquet.write_table(pyarrow.table({"id": range(5), "text": [*STORIES, None]}), path)
    assert list(formats.documents_in(path)) == [*STORIES, ""]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"stories\.parquet is no whole parquet file"):
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
    with pytest.raises(InputError, match="nothing but validation files"):
        prepare(tmp_path / "other", folder)


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


KILL = """
import os, signal, sys
from icecore.cli import main
from icecore.store import files
name, moment = sys.argv[1:3]
replace = os.replace
def deadly(source, target):
    hit = os.path.basename(target) == name
    if hit and moment == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
    if hit and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
    if hit:
        os.kill(os.getpid(), signal.SIGKILL)
files.os.replace = deadly
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("plan.json", "after"),
        ("tokenizer.json", "before"),
        ("train.npy", "before"),
        ("train.npy", "after"),
        ("token_bytes.npy", "after"),
        ("manifest.json", "before"),
        ("manifest.json", "after"),
    ],
)
def test_killed_at_any_file_the_same_command_goes_on_to_the_same_bytes(tmp_path, name, moment):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = ["prepare", "stories", "--vocabulary", "400"]
    assert main([*command, "--out", str(whole)]) == 0
    arguments = [sys.executable, "-c", KILL, name, moment, *command, "--out", str(killed)]
    assert subprocess.run(arguments, capture_output=True).returncode == -signal.SIGKILL
    made_before = {path.name: path.stat().st_mtime_ns for path in killed.iterdir() if path.name in OUTPUTS}
    if name != "manifest.json":
        with pytest.raises(InputError, match="not fully prepared yet; finish it with the same"):
            read_prepared(killed)
    assert main([*command, "--out", str(killed)]) == 0
    assert contents(whole) == contents(killed)
    assert all((killed / made).stat().st_mtime_ns == time for made, time in made_before.items()), "not made again"


def test_ctrl_c_keeps_what_is_whole_and_says_so(tmp_path):
    command = ["prepare", "stories", "--vocabulary", "400", "--out", str(tmp_path / "out")]
    arguments = [sys.executable, "-c", KILL, "train.npy", "interrupted", *command]
    stopped = subprocess.run(arguments, capture_output=True, text=True)
    assert stopped.returncode == 130
    assert stopped.stderr.splitlines()[-2:] == ["what is done so far is kept; the same command goes on", "interrupted"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["plan.json", "tokenizer.json"]
    assert main(command) == 0


def test_a_complete_folder_is_shown_and_another_one_is_refused(tmp_path, capsys, file):
    out = tmp_path / "out"
    arguments = ["prepare", "mine", "--from", str(file), "--vocabulary", "300", "--out", str(out)]
    assert main(arguments) == 0
    assert "prepared in" in capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert main([*arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["was_there"] is True
    assert printed["digest"] == read_prepared(out).digest
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
    file.write_text(f"other{END}text")
    assert main(arguments) == 2
    assert "made from other sources or settings; use --overwrite" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0
    assert read_prepared(out).digest != printed["digest"]


def test_an_unfinished_folder_of_other_versions_is_refused(tmp_path, file):
    out = tmp_path / "out"
    manifest = prepare(out, file).text.manifest
    (out / "manifest.json").unlink()
    plan = {"made_from": manifest["made_from"], "versions": {"tokenizers": "0.1"}}
    (out / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match="other versions of libraries; start again with --overwrite"):
        prepare(out, file)


def test_a_folder_in_use_is_refused(tmp_path, file):
    out = tmp_path / "out"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process is preparing"):
            prepare(out, file)
    finally:
        os.close(handle)


def test_sources_that_change_meanwhile_are_noticed(tmp_path, file):
    def watch(stage, *_progress):
        if stage == "training the tokenizer":
            file.write_text("a single document")

    validation = tmp_path / "other.txt"
    validation.write_text("other")
    with pytest.raises(InputError, match="changed while they were read"):
        prepare(tmp_path / "out", file, validation, watch=watch)


WRONG = [
    ("a.txt", b"fine\nfine\nbro\xffken\n", "a.txt, line 3 is not UTF-8"),
    ("a.txt", "cut off: ü".encode()[:-1], "a.txt, line 1 is not UTF-8"),
    ("a.txt", b"", "a.txt is empty"),
    ("a.txt", b" \n <|endoftext|> \n", "a.txt holds no document"),
    ("a.txt", b"only one", "one document cannot be split; give --validation FILE"),
    ("a.jsonl", b'"fine"\n{"text": \n', "a.jsonl:2 is no JSON"),
    ("a.jsonl", b'{"title": "x"}', "a.jsonl:1 has no field text or story; it has: title"),
    ("a.jsonl", b'"fine"\n[1]', "a.jsonl:2 must be a text, or have one in its field text or story, got [1]"),
    ("a.jsonl", b'"fine"\n{"text": 7}', "a.jsonl:2 must be a text"),
    ("a.jsonl", b'"half \\ud83d"', "a.jsonl:1 has half of a surrogate pair"),
    ("a.json", b'["one",\n"two",\n', "a.json:3 is no JSON that can be read (the list does not end"),
    ("a.json", b'["one",\n{"text" 5}]', "a.json:2 is no JSON"),
    ("a.json", b'["one",\n"two" "three"]', "a.json:2 is no JSON that can be read (expected ','"),
    ("a.json", b'{"text": "one"}', "a.json:1 is no JSON that can be read (expected '['"),
    ("a.json", b"[]", "a.json holds no document"),
    ("a.csv", b"x", "is of no kind that can be read; known kinds: .txt, .json"),
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
        (("mine", "--from", "hub"), "of the hub, only tinystories is known, not 'mine'"),
        (("tinystories", "--from", "hub", "--validation", "x"), "drop --validation"),
        (("mine", "--from", "missing.txt"), "there is no file or folder missing.txt"),
        (("stories", "--vocabulary", "256"), "--vocabulary must be at least 257"),
        (("stories", "--validation-share", "1"), "--validation-share must be between 0 and 1, got 1"),
        (("../x", "--from", "y"), "a corpus has a name of letters"),
        (("stories", "--out", "/dev/null/x"), "cannot make /dev/null/x"),
        (("stories", "--out", "{tmp}"), "holds files that are no prepared text"),
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


FULL = """
import resource, signal, sys
from icecore.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # writing more fails, as on a full disk
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk_is_one_line_and_the_same_command_goes_on(tmp_path):
    command = ["prepare", "stories", "--vocabulary", "400", "--out", str(tmp_path / "out")]
    failed = subprocess.run([sys.executable, "-c", FULL, *command], capture_output=True, text=True)
    assert failed.returncode == 2
    error = failed.stderr.splitlines()[-1]
    assert error == f"error: cannot write {tmp_path}/out/tokenizer.json: File too large; choose another path or free it"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["plan.json"]
    assert main(command) == 0


def test_the_stories_that_come_along_are_many_and_different():
    stories = list(formats.documents_in(BUILT_IN_FILE))
    assert len(set(stories)) == len(stories) >= 40
    assert 15_000 < BUILT_IN_FILE.stat().st_size < 25_000
