"""Counts of a prepared text: documents held out, defaults, the lines of wrong input."""

import pytest
from prepared_texts import END, stories_file
from small_runs import run_json

from icecore.errors import InputError
from icecore.text.formats import documents_in
from icecore.text.prepare import Settings, prepare_text
from icecore.text.sources import find_sources


@pytest.mark.parametrize(("share", "held_out"), [(0.05, 1), (0.4, 2), (0.99, 3)])
def test_the_nearest_number_of_documents_is_held_out(tmp_path, share, held_out):
    """At least one of four documents is held out, and not all."""
    sources = find_sources("mine", str(stories_file(tmp_path)), None, share)
    splits = prepare_text(Settings("mine", 300, share), sources, tmp_path / "out").text.manifest["splits"]
    assert (splits["train"]["documents"], splits["validation"]["documents"]) == (4 - held_out, held_out)


def test_the_stories_have_the_defaults_that_the_help_says(tmp_path, capsys):
    made = run_json(capsys, "prepare", "stories", "--out", tmp_path / "out", "--json")
    assert made["tokenizer"]["asked"] == made["vocabulary"] == 1000
    assert made["made_from"]["settings"]["validation_share"] == 0.05
    documents = {split: counts["documents"] for split, counts in made["splits"].items()}
    assert documents["validation"] == round(0.05 * sum(documents.values()))


def test_wrong_input_is_named_by_the_line_that_it_is_in(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text('[\n"one",\n{"text":\n\noops}]')
    with pytest.raises(InputError, match=r"a\.json:5 cannot be parsed as JSON"):
        list(documents_in(tmp_path / "a.json"))
    monkeypatch.setattr("icecore.text.formats.LONGEST", 20)
    (tmp_path / "a.txt").write_text(f"one\ntwo\nthree{END}\nfour{END}{'x' * 30}")
    with pytest.raises(InputError, match=r"a\.txt, line 4 begins a document"):
        list(documents_in(tmp_path / "a.txt"))
    assert Settings("mine").vocabulary == 10_000, "the paper's"
