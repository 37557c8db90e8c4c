"""Cached decoding equals the plain model; drawing by hand; the command."""

import collections
import json

import pytest
import torch

import icecore as ice
from icecore.cli import main
from icecore.errors import InputError
from icecore.models import LSTM, ModelDims, Transformer, initialize
from icecore.models.cached import cached_logits, empty_cache
from icecore.models.sampling import Sampling, continuations
from icecore.seeding import make_generator
from icecore.tasks import Language
from icecore.text import TextOfTokens, load_tokenizer

DIMS = ModelDims(vocab_size=11, n_positions=12)
END = 0


def parameters_of(model, dtype=torch.float64):
    values = initialize(model, DIMS, 0)
    # Larger than at the start of training, so that attention is far from uniform.
    return {name: 20 * value.to(dtype) if value.ndim > 1 else value.to(dtype) for name, value in values.items()}


def tokens_of(length, batch=3):
    return torch.randint(0, 11, (batch, length), generator=make_generator(0, "tokens"))


@pytest.mark.parametrize("attention", ["softmax", "prefix-sum"])
@pytest.mark.parametrize("pieces", [[12], [1] * 12, [5, 1, 1, 5], [1, 11]])
def test_cached_logits_equal_the_plain_ones(attention, pieces):
    model = Transformer(width=16, layers=3, attention=attention)
    parameters, tokens = parameters_of(model), tokens_of(12)
    cache, found = empty_cache(model), []
    for piece in tokens.split(pieces, dim=1):
        logits, cache = cached_logits(model, parameters, piece, cache)
        found.append(logits)
    plain = model.logits(parameters, tokens)
    assert plain.std() > 0.1
    # Float64, the same sums in another order.
    torch.testing.assert_close(torch.cat(found, dim=1), plain, rtol=1e-10, atol=1e-10)
    assert cache.length == 12


def test_the_cache_is_not_changed_by_its_use():
    model = Transformer(width=16)
    parameters, tokens = parameters_of(model), tokens_of(4)
    _, cache = cached_logits(model, parameters, tokens[:, :3], empty_cache(model))
    first, _ = cached_logits(model, parameters, tokens[:, 3:], cache)
    again, _ = cached_logits(model, parameters, tokens[:, 3:], cache)
    assert torch.equal(first, again)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: CPUs without bfloat16 die of it")
def test_it_computes_in_bfloat16_on_a_gpu():
    model = Transformer(width=16)
    parameters = {name: value.cuda() for name, value in parameters_of(model, torch.bfloat16).items()}
    logits, cache = cached_logits(model, parameters, tokens_of(4).cuda(), empty_cache(model))
    logits, _ = cached_logits(model, parameters, tokens_of(1).cuda(), cache)
    assert (logits.dtype, logits.device.type) == (torch.bfloat16, "cuda")
    assert logits.isfinite().all()


def test_more_tokens_than_positions_are_refused():
    model = Transformer(width=16)
    with pytest.raises(InputError, match="at most 12 tokens, the model's positions, got 13"):
        cached_logits(model, parameters_of(model), tokens_of(13), empty_cache(model))


def test_any_model_can_be_computed_anew():
    model = LSTM(width=16)
    parameters, tokens = parameters_of(model, torch.float32), tokens_of(6)
    step, cache = model.decoder(parameters)
    _, cache = step(tokens[:, :4], cache)
    logits, _ = step(tokens[:, 4:], cache)
    assert torch.equal(logits, model.logits(parameters, tokens)[:, 4:])


KNOWN = torch.tensor([[0.1, 0.4, 0.2, 0.3]])


@pytest.mark.parametrize(
    ("temperature", "top_p", "expected"),
    [
        (1.0, 1.0, [0.1, 0.4, 0.2, 0.3]),
        (0.0, 1.0, [0, 1, 0, 0]),
        (0.5, 1.0, [1 / 30, 16 / 30, 4 / 30, 9 / 30]),  # squares
        (1.0, 0.39, [0, 1, 0, 0]),  # the first suffices
        (1.0, 0.41, [0, 4 / 7, 0, 3 / 7]),
        (1.0, 0.69, [0, 4 / 7, 0, 3 / 7]),
        (1.0, 0.71, [0, 4 / 9, 2 / 9, 3 / 9]),
        (1.0, 0.91, [0.1, 0.4, 0.2, 0.3]),
    ],
)
def test_the_distribution_by_hand(temperature, top_p, expected):
    found = Sampling(temperature, top_p).probabilities(KNOWN.double().log())
    assert found[0].tolist() == pytest.approx(expected)


def test_draws_follow_the_distribution():
    drawn = 4000
    logits = KNOWN.log().expand(drawn, -1)
    generators = [make_generator(0, "draw", index) for index in range(drawn)]
    counts = collections.Counter(Sampling(top_p=0.8).choose(logits, generators))
    assert counts[0] == 0
    for token, chance in ((1, 4 / 9), (2, 2 / 9), (3, 3 / 9)):
        assert abs(counts[token] / drawn - chance) < 4 * (chance * (1 - chance) / drawn) ** 0.5  # four deviations


def run_steps(model, sampling, **settings):
    limits = {"count": 1, "tokens": 20, "positions": 12, "end_token": END} | settings
    return list(continuations(model, parameters_of(model), [END, 3, 4], sampling, **limits))


@pytest.mark.parametrize("attention", ["softmax", "prefix-sum"])
def test_greedy_text_is_that_of_the_plain_model(attention):
    model = Transformer(width=16, attention=attention)
    steps = run_steps(model, Sampling(temperature=0.0), end_token=-1)
    text = [END, 3, 4]
    for _ in range(10):
        text.append(int(model.logits(parameters_of(model), torch.tensor([text]))[0, -1].argmax()))
    assert [END, 3, 4, *(step[0] for step in steps)] == text, "it ends with the last position: 12 tokens are fed"


def test_a_seed_decides_the_text_and_each_text_has_its_own_stream():
    model = Transformer(width=16)
    two = run_steps(model, Sampling(seed=1), count=2, end_token=-1)
    assert two == run_steps(model, Sampling(seed=1), count=2, end_token=-1)
    assert two != run_steps(model, Sampling(seed=2), count=2, end_token=-1)
    first, second = zip(*two, strict=True)
    assert first != second
    assert [step[0] for step in run_steps(model, Sampling(seed=1), end_token=-1)] == list(first)


def test_a_text_ends_with_its_end_token_and_the_others_go_on():
    model = Transformer(width=16)
    free = run_steps(model, Sampling(seed=1), count=2, end_token=-1)
    end = free[2][0]
    assert end not in [step[1] for step in free[:3]]
    steps = run_steps(model, Sampling(seed=1), count=2, end_token=end)
    for row in (0, 1):
        text = [step[row] for step in free]
        length = text.index(end) + 1 if end in text else len(text)
        assert [step[row] for step in steps] == (text[:length] + [None] * len(text))[: len(steps)]
    assert len(steps) > 3, "the second text goes on"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    assert main(["prepare", "stories", "--vocabulary", "300", "--out", str(folder / "stories")]) == 0
    task = Language(str(folder / "stories"), window=32)
    settings = {"steps": 3, "batch": 4, "seeds": [3, 5], "device": "cpu"}
    return ice.train(task, Transformer(width=16, heads=2), out=folder / "runs", **settings)


def sample(capsys, *arguments) -> tuple[int, str, str]:
    code = main(["sample", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_writes_on(capsys, run):
    code, out, err = sample(capsys, run.path, "--prompt", "Mia had", "--tokens", 5, "--seed", 1)
    assert code == 0
    assert out.startswith("Mia had")
    assert err == "5 tokens, stopped by --tokens\n"
    assert sample(capsys, run.path, "--prompt", "Mia had", "--tokens", 5, "--seed", 1)[1] == out
    assert sample(capsys, run.path, "--prompt", "Mia had", "--tokens", 5, "--seed", 2)[1] != out


def test_the_command_stops_at_the_last_position_and_has_json(capsys, run):
    code, out, _ = sample(capsys, run.path, "--prompt", "", "--count", 3, "--json", "--which", 5)
    assert code == 0
    printed = json.loads(out.splitlines()[-1])
    assert printed["seed_of_run"] == 5
    assert len(printed["samples"]) == 3
    for one in printed["samples"]:
        if one["stopped"] == "the last position that was trained":
            assert one["tokens"] == 32, "the end token before the text, and 31 of these, are fed"
    assert {one["stopped"] for one in printed["samples"]} <= {
        "the end of the text",
        "the last position that was trained",
    }


def test_several_texts_are_printed_as_prepare_reads_them(capsys, run):
    _, out, err = sample(capsys, run.path, "--tokens", 3, "--count", 2)
    assert [part.strip().startswith("Once upon a time") for part in out.split("<|endoftext|>")] == [True, True]
    assert err.count("stopped by") == 2


def test_on_a_terminal_the_text_appears_as_it_comes(capsys, run, monkeypatch):
    plain = sample(capsys, run.path, "--tokens", 8)[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert sample(capsys, run.path, "--tokens", 8)[1] == plain


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--tokens", 0), "--tokens must be at least 1, got 0"),
        (("--count", 0), "--count must be at least 1, got 0"),
        (("--temperature", -1), "--temperature must be at least 0 and finite, got -1"),
        (("--temperature", "nan"), "--temperature must be at least 0 and finite, got nan"),
        (("--top-p", 0), "--top-p must be above 0 and at most 1, got 0"),
        (("--top-p", 1.5), "--top-p must be above 0 and at most 1, got 1.5"),
        (("--which", 0), "the run has the seeds [3, 5], not 0"),
        (("--prompt", "word " * 40), "leaves room for 31; shorten it"),
    ],
)
def test_wrong_flags_name_the_way_out(capsys, run, flags, message):
    code, out, err = sample(capsys, run.path, *flags)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err


def test_a_run_of_another_task_writes_no_text(capsys, tmp_path):
    task = ice.tasks.ModularAddition(modulus=7)
    path = ice.train(task, Transformer(width=16), out=tmp_path, steps=1, batch=4, device="cpu").path
    code, _, err = sample(capsys, path)
    assert code == 2
    assert "only runs of language write text; this is a run of modular-addition" in err


def test_an_exported_model_has_its_tokenizer(run, tmp_path):
    transformers = pytest.importorskip("transformers")
    assert main(["export", str(run.path), str(tmp_path / "hf")]) == 0
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    text = "Once upon a time"
    assert tokenizer(text)["input_ids"] == load_tokenizer(run.config.task.text.folder).encode(text).ids
    ends = transformers.GenerationConfig.from_pretrained(tmp_path / "hf").eos_token_id
    assert tokenizer.bos_token_id == tokenizer.eos_token_id == ends == END


def test_a_prompt_that_is_no_text_is_named(capsys, run):
    code, _, errors = sample(capsys, run.path, "--prompt", "\udcff")
    assert code == 2
    assert "--prompt is not UTF-8" in errors


def test_a_missing_or_damaged_tokenizer_is_named(capsys, run):
    path = run.config.task.text.folder / "tokenizer.json"
    content = path.read_bytes()
    try:
        path.write_bytes(content[:100])
        assert "tokenizer.json is damaged" in sample(capsys, run.path)[2]
        path.unlink()
        assert "tokenizer.json is missing; prepare the text again" in sample(capsys, run.path)[2]
    finally:
        path.write_bytes(content)


def test_the_network_that_is_asked_for_writes(capsys, run):
    tokenizer = load_tokenizer(run.config.task.text.folder)
    begun = [0, *tokenizer.encode("Mia had", add_special_tokens=False).ids]
    texts = {}
    for index in range(2):
        reader, limits = TextOfTokens(tokenizer), {"count": 1, "tokens": 9, "positions": 32, "end_token": 0}
        steps = continuations(run.config.model, run.population.parameters(index), begun, Sampling(0.0), **limits)
        texts[index] = "".join(reader.add(token) for (token,) in steps if token) + reader.end()
    assert texts[0] != texts[1]
    greedy = (run.path, "--prompt", "Mia had", "--tokens", 9, "--temperature", 0, "--json")
    for flags, index in (((), 0), (("--which", 3), 0), (("--which", 5), 1)):
        (printed,) = json.loads(sample(capsys, *greedy, *flags)[1].splitlines()[-1])["samples"]
        assert printed["text"] == texts[index]
