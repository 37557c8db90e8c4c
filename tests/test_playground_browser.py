"""The playground in a real Chromium computes what icecore computes, and shows what is chosen."""

import itertools
import json
from pathlib import Path

import pytest
import torch
from browser import Page, chromium, opened_browser
from small_runs import train_whole

import icecore as ice
from icecore.page.document import page_html
from icecore.page.playground import PlaygroundOptions, playground_of
from icecore.page.report import made

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs Chromium, such as Debian's package chromium")
ITEMS = 20


@pytest.fixture(scope="module")
def browser():
    with opened_browser() as page:
        yield page


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train_whole(tmp_path_factory)


def page_of(data: dict, path: Path) -> Path:
    path.write_text(page_html({"title": "a page", "made": made(), "playgrounds": [data]}, "a page"))
    return path


@pytest.fixture(scope="module")
def playground(whole, tmp_path_factory) -> Path:
    data = playground_of(whole.path, PlaygroundOptions(snapshots=4, items=ITEMS), False, lambda _: None)
    return page_of(data, tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture
def opened(browser, playground):
    browser.resize(1280, 1000)
    browser.open(playground)
    browser.settle()
    yield browser
    assert browser.errors == []
    assert browser.requests == [playground.resolve().as_uri()]


def logits(page: Page, tokens, **options) -> list[float]:
    return page.run(f"icecore.logits({json.dumps({'tokens': tokens, **options})})")


def parameters_of(run: ice.TrainedRun, seed: int, body: int | None = None, untrained: bool = False):
    """Return the parameters of a page: trained ones in 16 bits, around the body of a seed."""
    own = run.config.initial(seed) if untrained else run.parameters(seed)
    trained = {name: own[name].half().float() for name in run.config.trained_names}
    return run.config.initial(seed if body is None else body) | trained


def our_logits(run: ice.TrainedRun, parameters, tokens) -> list[float]:
    return run.config.model.logits(parameters, torch.tensor([list(tokens)]))[0, -1].tolist()


def test_logits_are_ours_for_any_body(opened, whole):
    """In float32 ours differ from exact ones by about 1e-6; the body is drawn with errors of that size."""
    last = opened.run("icecore.data.playgrounds[0].sets[0].snapshots.length") - 1
    for item in whole.config.task.test_items()[:5]:
        for options, ours in (
            ({"set": 1}, parameters_of(whole, 1)),
            ({"set": 0, "snapshot": 0}, parameters_of(whole, 0, untrained=True)),
            ({"set": 1, "seed": 12345}, parameters_of(whole, 1, body=12345)),
        ):
            wanted = our_logits(whole, ours, item.prompt)
            assert logits(opened, item.prompt, **options) == pytest.approx(wanted, abs=2e-5)
        trained = our_logits(whole, parameters_of(whole, 0), item.prompt)
        assert logits(opened, item.prompt, set=0, snapshot=last) == pytest.approx(trained, abs=5e-3)  # trained again


@pytest.mark.parametrize("attention", ["softmax", "prefix-sum"])
def test_a_stored_body_and_both_kinds_of_attention(attention, browser, tmp_path, monkeypatch):
    task = ice.tasks.Needle(max_pairs=2, values=5, vocabulary=12, test_size=10)
    model = ice.Transformer(width=12, heads=3, layers=1, attention=attention, init="matched")
    run = ice.train(task, model, "unembed", seeds=2, steps=2, batch=4, warmup_steps=1, out=tmp_path, device="cpu")
    assert run.path is not None
    monkeypatch.setattr("icecore.page.playground.drawn_again", lambda *_: None)
    data = playground_of(run.path, PlaygroundOptions(snapshots=0), False, lambda _: None)
    browser.open(page_of(data, tmp_path / "page.html"))
    for item in task.test_items()[:3]:
        for body in (0, 1):
            halves = {name: value.half().float() for name, value in parameters_of(run, 0, body).items()}
            found = logits(browser, item.prompt, set=0, seed=body)
            assert found == pytest.approx(our_logits(run, halves, item.prompt), abs=2e-5)
    assert browser.errors == []


PLACE = "each.getAttribute('transform') ?? `${each.getAttribute('cx')} ${each.getAttribute('cy')}`"


def shown(page: Page) -> tuple[list[str], list[str], str]:
    """Return the embeddings' places, the probabilities and the words beside the slider."""
    dots = f"[...document.querySelectorAll('.playground figure circle')].map((each) => {PLACE})"
    rows = "[...document.querySelectorAll('.answer td:last-child')].map((each) => each.textContent)"
    return page.run(dots), page.run(rows), page.run("document.querySelector('.playground output').textContent")


def choose(page: Page, index: int, value: str) -> None:
    page.run(
        f"(() => {{ const chosen = document.querySelectorAll('.playground select')[{index}];"
        f"chosen.value = '{value}'; chosen.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()"
    )
    page.settle()


def test_the_slider_changes_the_picture_and_the_answer(opened, whole):
    after = shown(opened)
    assert after[2].startswith(f"step {whole.config.steps} of {whole.config.steps}")
    opened.run("document.querySelector('.playground input[type=range]').focus()")
    opened.press("Home", 36)
    before = shown(opened)
    assert before[2].startswith("step 0 of")
    assert len(before[0]) == len(after[0]) == whole.config.task.vocab_size - 1  # padding is in no prompt
    assert before[0] != after[0]
    opened.press("ArrowRight", 39)
    between = shown(opened)
    assert between[0] not in (before[0], after[0])
    opened.press("End", 35)
    assert shown(opened) == after


def type_prompt(page: Page, text: str) -> None:
    page.run(
        "(() => { const input = document.querySelector('input.prompt');"
        f"input.value = {json.dumps(text)}; input.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
    )
    page.settle()


PROBLEMS = {
    "a 3 x": 'no token "x"',
    "a 3": "ends with a question",
    "a 1 b 2 c 3 a 1 b": "at most 7 tokens",
    "": "type a prompt",
}


def test_a_typed_prompt_gives_our_answer(opened, whole):
    choose(opened, 0, "1")
    type_prompt(opened, "a 3 b 7 a")
    words = "[...document.querySelectorAll('.answer th')].map((each) => each.textContent)"
    ours = whole.predict("a 3 b 7 a", top=5)[1]
    assert opened.run(words) == [word for word, _ in ours]
    chances = [float(text.rstrip(" %")) / 100 for text in shown(opened)[1]]
    assert chances == pytest.approx([chance for _, chance in ours], abs=1e-3)
    for text, problem in PROBLEMS.items():
        type_prompt(opened, text)
        assert problem in opened.run("document.querySelector('.problem').textContent")
        assert opened.run(words) == [word for word, _ in ours]  # the last whole prompt's, and it says so
        for caption in (".answer caption", ".heads figcaption"):
            assert "the last whole prompt, “a 3 b 7 a?”" in opened.run(
                f"document.querySelector('{caption}').textContent"
            )


def test_every_step_shows_its_own_accuracy(opened):
    data = opened.run("icecore.data.playgrounds[0]")
    opened.run("document.querySelector('.playground input[type=range]').focus()")
    opened.press("Home", 36)
    for one in data["sets"][0]["snapshots"]:
        assert shown(opened)[2].endswith(f"test accuracy {100 * one['accuracy']:.1f} %")
        opened.wait_for("document.querySelector('.accuracy').textContent.endsWith('%')")
        move = "(async () => { const slider = document.querySelector('.playground input[type=range]');"
        move += "slider.value = (+slider.value + 1) % (+slider.max + 1);"
        move += "slider.dispatchEvent(new Event('input', { bubbles: true }));"
        move += "await new Promise((done) => setTimeout(done, 0));"
        assert (
            opened.run(f"{move} return document.querySelector('.accuracy').textContent; }})()") == "…"
        )  # not the last
    choose(opened, 0, "1")
    assert "only the untrained and the trained state" in shown(opened)[2]


def test_only_the_right_answer_is_marked_as_right(opened, whole):
    task = whole.config.task
    item = next(item for item in task.test_items()[:ITEMS] if list(item.prompt).count(item.answer[0]) == 1)
    type_prompt(opened, " ".join(task.words(item.prompt)))
    assert opened.run("document.querySelectorAll('.goal.good').length") == 1
    assert "the right answer" in opened.run("document.querySelector('.heads p').textContent")
    type_prompt(opened, own_value(opened, whole))
    assert opened.run("document.querySelectorAll('.goal.most').length") == 1
    assert opened.run("document.querySelectorAll('.goal.good').length") == 0
    assert "its own answer" in opened.run("document.querySelector('.heads p').textContent")


def own_value(page: Page, run: ice.TrainedRun) -> str:
    """Return a prompt that is no test item of the page, and whose answer by the run is one of its values."""
    task = run.config.task
    assert isinstance(task, ice.tasks.Needle)
    known = {item.prompt for item in task.test_items()[:ITEMS]}
    for one, other in itertools.permutations(range(1, task.values + 1), 2):
        for asked in "ab":
            tokens = task.read(f"a {one} b {other} {asked}")
            found = logits(page, tokens)
            if tokens not in known and found.index(max(found)) in (one, other):
                return f"a {one} b {other} {asked}"
    raise AssertionError("the run never answers with a value of the prompt")


def test_the_slider_stays_above_what_it_moves_and_heads_stand_in_rows(opened):
    opened.resize(1280, 600)
    opened.run("document.querySelector('.answer').scrollIntoView({ block: 'end', behavior: 'instant' })")
    top = opened.run("document.querySelector('.steps').getBoundingClientRect().top")
    assert top == pytest.approx(0, abs=1)
    rows = "[...document.querySelectorAll('.head-row')]"
    tops = opened.run(f"{rows}.map((row) => [...row.children].map((head) => head.getBoundingClientRect().top))")
    assert [len(set(row)) for row in tops] == [1] * opened.run("icecore.data.playgrounds[0].model.layers")
    heights = opened.run("[...document.querySelectorAll('.head-name')].map((name) => name.getClientRects().length)")
    assert set(heights) == {1}


def test_the_words_of_a_map_are_between_its_name_and_its_cells(opened):
    heads = "[...document.querySelectorAll('.head-row > div')]"
    box = "getBoundingClientRect()"
    words = f"[...head.querySelectorAll('[aria-label^=\\'x-axis tick label\\'] text')].map((text) => text.{box})"
    edges = opened.run(
        f"{heads}.map((head) => {{ const words = {words}; return [head.querySelector('.head-name').{box}.bottom,"
        f" Math.min(...words.map((word) => word.top)), Math.max(...words.map((word) => word.bottom)),"
        f" head.querySelector('[aria-label=cell] rect').{box}.top]; }})"
    )
    assert len(edges) == 8
    for name, top, bottom, cell in edges:
        assert name < top < bottom < cell < bottom + 8


def test_a_run_in_which_everything_trained_has_no_frozen_body(browser, tmp_path):
    task = ice.tasks.Needle(max_pairs=2, values=5, vocabulary=12, test_size=10)
    model = ice.Transformer(width=16, init="matched")
    run = ice.train(task, model, "all", seeds=1, steps=2, batch=4, warmup_steps=1, out=tmp_path, device="cpu")
    assert run.path is not None
    data = playground_of(run.path, PlaygroundOptions(snapshots=0), False, lambda _: None)
    browser.open(page_of(data, tmp_path / "page.html"))
    text = browser.run("document.querySelector('#page').textContent")
    assert "Everything trained; there is no frozen body." in text
    assert "around the body of" not in text
    assert "drawn here from its seed" not in text


def test_the_accuracy_is_that_of_the_test_items(opened, whole):
    items = whole.config.task.test_items()[:ITEMS]

    def expected(body: int) -> str:
        parameters = parameters_of(whole, 1, body)
        answers = [torch.tensor(our_logits(whole, parameters, item.prompt)).argmax().item() for item in items]
        right = sum(answer == item.answer[0] for answer, item in zip(answers, items, strict=True))
        return f"{100 * right / ITEMS:.0f} %"

    choose(opened, 0, "1")
    opened.wait_for(f"document.querySelector('.accuracy').textContent === '{expected(1)}'")
    choose(opened, 1, "other")
    assert opened.run("document.querySelector('.playground input[type=number]').value") == "2"
    opened.wait_for(f"document.querySelector('.accuracy').textContent === '{expected(2)}'")


def test_controls_have_names(opened):
    tree = opened.call("Accessibility.getFullAXTree")["nodes"]
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node.get("ignored")]
    usable = ("button", "link", "checkbox", "combobox", "searchbox", "textbox", "slider", "spinbutton", "image", "img")
    assert ("slider", "Training") in roles
    assert [one for one in roles if one[0] in usable and not one[1].strip()] == []
    opened.resize(390, 844, is_phone=True)
    assert opened.run("document.documentElement.scrollWidth") <= 390
