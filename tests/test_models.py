"""Models: parameter counts, initializations, roles, and logits equal to Hugging Face's GPT-2."""

import math
from typing import Any

import pytest
import torch

from icecore.errors import InputError
from icecore.models import (
    LSTM,
    ModelDims,
    Normal,
    Orthogonal,
    ParameterSpec,
    Positions,
    Transformer,
    Uniform,
    count_parameters,
    initialize,
    trained_names,
)
from icecore.models.base import initial_value
from icecore.models.huggingface import from_huggingface, to_huggingface

pytestmark = pytest.mark.shapes

SMALL = Transformer(width=16, layers=3, heads=4)
DIMS = ModelDims(vocab_size=11, n_positions=9)


def tokens(seed: int = 0, batch: int = 5, length: int = 7) -> torch.Tensor:
    return torch.randint(0, 11, (batch, length), generator=torch.Generator().manual_seed(seed))


# SOURCE: Table 6. The modular row counts 97 tokens; p = 199 has 203,776.
TABLE_6 = {
    "modular addition, 97 tokens": (ModelDims(97, 5), 99_328, 5_120),
    "modular addition, p = 199": (ModelDims(199, 5), 203_776, 5_120),
    "needle": (ModelDims(256, 100), 262_144, 102_400),
    "decimal addition": (ModelDims(31, 40), 31_744, 40_960),
    "parentheses": (ModelDims(4, 80), 4_096, 81_920),
}


@pytest.mark.parametrize(("dims", "token", "position"), TABLE_6.values(), ids=TABLE_6)
def test_parameter_counts_are_those_of_table_6(dims, token, position):
    counts = count_parameters(Transformer(width=1024), dims)
    assert counts["token"] == counts["unembed"] == token
    assert counts["position"] == position
    assert counts["attention"] + counts["mlp"] + counts["norm"] == 25_194_496


def test_trained_parameters_of_table_3():
    """SOURCE: Table 3, width 128: 262,784 and 659,584 parameters train."""
    counts = count_parameters(Transformer(width=128), ModelDims(1024, 5))
    assert counts["token"] + counts["position"] + counts["unembed"] == 262_784
    assert sum(counts.values()) == 659_584


@pytest.mark.parametrize("width", [64, 1024])
@pytest.mark.parametrize("init", ["released", "paper", "matched", "matched-all"])
def test_initial_standard_deviations(init, width):
    model = Transformer(width=width, layers=2, init=init, gain=1.5)
    initializers = {name: spec.initializer for name, spec in model.specs(DIMS).items()}
    std = {name: each.std for name, each in initializers.items() if isinstance(each, Normal)}
    matched = math.sqrt(1024 / width) if "matched" in init else 1
    body = 1.5 * 0.02 * matched
    assert std["token"] == std["position"] == 0.02
    assert std["unembed"] == pytest.approx(0.02 * (matched if init == "matched-all" else 1))
    assert std["block1.q.weight"] == pytest.approx(body)
    assert std["block1.mlp_out.weight"] == pytest.approx(body / 2)
    assert std["block1.out.weight"] == pytest.approx(body if init == "paper" else body / 2)
    assert std["block1.mlp_in.weight"] == pytest.approx(body / 2 if init == "paper" else body)


def test_initial_values_have_their_standard_deviation_and_their_seed():
    first, again, other = (initialize(Transformer(width=64), DIMS, seed) for seed in (3, 3, 4))
    weight = first["block0.mlp_in.weight"]
    assert weight.std().item() == pytest.approx(0.02, rel=4 / math.sqrt(2 * weight.numel()))  # four standard errors
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(weight, other["block0.mlp_in.weight"])
    assert not torch.equal(weight, first["block1.mlp_in.weight"]), "each parameter has a stream of its own"
    assert torch.equal(first["final_norm.weight"], torch.ones(64))
    assert torch.equal(first["block0.q.bias"], torch.zeros(64))


def with_random_biases(parameters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """All parameters different from zero and one, so that a mix-up cannot hide."""
    generator = torch.Generator().manual_seed(1)
    return {name: value + 0.3 * torch.randn(value.shape, generator=generator) for name, value in parameters.items()}


@pytest.mark.parametrize("ours_is", [SMALL, Transformer(width=16, layers=1, heads=2)], ids=str)
def test_logits_equal_hugging_faces_both_ways(ours_is):
    parameters = with_random_biases(initialize(ours_is, DIMS, 0))
    network = to_huggingface(ours_is, DIMS, parameters)
    with torch.no_grad():
        theirs = network(tokens()).logits
    ours = ours_is.logits(parameters, tokens())
    # Logits are of order 1 to 10; float32 has 7 digits, and sums of 64 terms lose about one.
    assert torch.allclose(ours, theirs, atol=2e-5, rtol=0)
    model, dims, back = from_huggingface(network)
    assert (model, dims) == (ours_is, DIMS)
    assert back.keys() == parameters.keys()
    torch.nn.init.zeros_(network.lm_head.weight)  # the parameters are a copy
    assert all(torch.equal(back[name], parameters[name]) for name in parameters)


def test_an_export_draws_nothing_in_training_and_ends_with_no_token_that_it_lacks():
    network = to_huggingface(SMALL, DIMS, initialize(SMALL, DIMS, 0))
    assert torch.equal(network.train()(tokens()).logits, network.eval()(tokens()).logits)
    assert (network.config.bos_token_id, network.config.eos_token_id) == (None, None)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"activation_function": "gelu"}, "activation_function must be gelu_new, .*, got gelu$"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon must be 1e-05, .*, got 1e-06"),
        ({"scale_attn_weights": False}, "scale_attn_weights must be True, .*, got False"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx must be False, .*, got True"),
        ({"n_inner": 12}, "n_inner must be 4 n_embd, .*, got 12"),
    ],
)
def test_a_gpt2_that_computes_something_else_is_refused(setting, message):
    network = to_huggingface(SMALL, DIMS, initialize(SMALL, DIMS, 0))
    network.config.update(setting)
    with pytest.raises(InputError, match=message):
        from_huggingface(network)


def test_a_released_initialization_is_drawn_like_gpt2s():
    """The same standard deviation, parameter by parameter, as a fresh GPT2LMHeadModel has."""
    network = to_huggingface(Transformer(width=256), DIMS, initialize(Transformer(width=256), DIMS, 0))
    fresh = type(network)(network.config)
    for (name, ours), theirs in zip(network.named_parameters(), fresh.parameters(), strict=True):
        # Each estimate of a standard deviation from n values is off by 1 / sqrt(2 n) of it.
        tolerance = 6 / math.sqrt(2 * ours.numel())
        assert ours.std().item() == pytest.approx(theirs.std().item(), rel=tolerance, abs=1e-7), name


def test_linearized_attention_is_a_lower_triangle_of_ones():
    model = Transformer(width=8, layers=1, heads=2, attention="prefix-sum")
    parameters = with_random_biases(initialize(model, DIMS, 0))
    values = model.trace(parameters, tokens())
    softmax = Transformer(width=8, layers=1, heads=2)
    x = torch.nn.functional.layer_norm(
        values["embedding"],
        (8,),
        parameters["block0.attention_norm.weight"],
        parameters["block0.attention_norm.bias"],
    )
    value = x @ parameters["block0.v.weight"].T + parameters["block0.v.bias"]
    mixed = torch.ones(7, 7).tril() @ value
    expected = mixed @ parameters["block0.out.weight"].T + parameters["block0.out.bias"]
    assert torch.allclose(values["block0.attention_out"], expected, atol=1e-5)
    assert "block0.attention" not in values
    assert not torch.allclose(values["logits"], softmax.logits(parameters, tokens()))
    with pytest.raises(InputError, match="cannot be exported"):
        to_huggingface(model, DIMS, parameters)


def test_a_trace_has_named_values_with_shapes():
    values = SMALL.trace(initialize(SMALL, DIMS, 0), tokens())
    shapes = {name: tuple(value.shape) for name, value in values.items()}
    assert shapes["embedding"] == shapes["block2.stream"] == shapes["final"] == (5, 7, 16)
    assert shapes["block0.attention"] == (5, 4, 7, 7)
    assert shapes["block1.mlp_active"] == (5, 7, 64)
    assert shapes["logits"] == (5, 7, 11)
    assert torch.allclose(values["block0.attention"].sum(dim=-1), torch.ones(5, 4, 7))
    assert torch.equal(values["block0.attention"].triu(1), torch.zeros(5, 4, 7, 7))
    middle = values["embedding"] + values["block0.attention_out"]
    assert torch.equal(values["block0.middle"], middle)


@pytest.mark.parametrize("model", [SMALL, LSTM(width=16)], ids=str)
def test_logits_at_positions_are_those_among_all(model):
    parameters = initialize(model, DIMS, 0)
    everywhere = model.logits(parameters, tokens())
    at = Positions(torch.tensor([0, 3, 3]), torch.tensor([6, 0, 2]))
    assert torch.allclose(model.logits(parameters, tokens(), at), everywhere[at.rows, at.columns], atol=1e-6)


@pytest.mark.parametrize("model", [SMALL, LSTM(width=16)], ids=str)
def test_nothing_looks_ahead(model):
    parameters = initialize(model, DIMS, 0)
    changed = tokens()
    changed[:, 4:] = (changed[:, 4:] + 1) % 11
    before, after = model.logits(parameters, tokens()), model.logits(parameters, changed)
    assert torch.allclose(before[:, :4], after[:, :4], atol=1e-6)
    assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-3)


def test_lstm_equals_torchs():
    model = LSTM(width=12, layers=2)
    parameters = initialize(model, DIMS, 0)
    network = torch.nn.LSTM(12, 12, 2, batch_first=True)
    state = {}
    for layer in range(2):
        for ours, theirs in (("input", "ih"), ("hidden", "hh")):
            state[f"weight_{theirs}_l{layer}"] = parameters[f"layer{layer}.{ours}.weight"]
            state[f"bias_{theirs}_l{layer}"] = parameters[f"layer{layer}.{ours}.bias"]
    network.load_state_dict(state)
    hidden, _ = network(parameters["token"][tokens()])
    expected = hidden @ parameters["unembed"].T + parameters["unembed_bias"]
    assert torch.allclose(model.logits(parameters, tokens()), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("trainable", "roles"),
    [
        ("embeddings", {"token", "position", "unembed"}),
        ("embed", {"token", "position"}),
        ("unembed", {"unembed"}),
        ("token+unembed", {"token", "unembed"}),
        ("all", {"token", "position", "unembed", "attention", "mlp", "norm"}),
        ("norm,token", {"token", "norm"}),
        ("norm, token", {"token", "norm"}),
    ],
)
def test_what_trains_is_a_set_of_roles(trainable, roles):
    specs = SMALL.specs(DIMS)
    names = set(trained_names(SMALL, DIMS, trainable))
    assert names == {name for name, spec in specs.items() if spec.role.split("/")[0] in roles}


def test_finer_roles_and_other_bodies():
    assert trained_names(SMALL, DIMS, "k,out") == [
        f"block{layer}.{part}.{kind}" for layer in range(3) for part in ("k", "out") for kind in ("weight", "bias")
    ]
    assert trained_names(LSTM(width=4), DIMS, "embeddings") == ["token", "unembed", "unembed_bias"]
    with pytest.raises(InputError, match="did you mean 'unembed'"):
        trained_names(SMALL, DIMS, "unembedd")
    with pytest.raises(InputError, match="did you mean 'embeddings'"):
        trained_names(SMALL, DIMS, "embedings")
    with pytest.raises(InputError, match="unknown role of lstm 'attention'"):
        trained_names(LSTM(width=4), DIMS, "attention")
    unused = type("Unused", (Transformer,), {"roles": (*Transformer.roles, "gate")})
    with pytest.raises(InputError, match="nothing trains: transformer has no parameter with the role 'gate'"):
        trained_names(unused(width=16), DIMS, "gate")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 10, "heads": 4}, "multiple of heads, got width 10 with 4 heads"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"width": -4}, "width must be at least 1, got -4"),
        ({"gain": 0.0}, "gain must be positive"),
    ],
)
def test_impossible_sizes_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Transformer(**settings)


def test_export_in_transformer_lens(tmp_path):
    """Under the extra `lens`: TransformerLens 4 loads an export and gives the same logits."""
    lens = pytest.importorskip("transformer_lens.model_bridge", reason="needs the extra lens")
    parameters = with_random_biases(initialize(SMALL, DIMS, 0))
    to_huggingface(SMALL, DIMS, parameters).save_pretrained(tmp_path)
    bridge = lens.TransformerBridge.boot_transformers(str(tmp_path), device="cpu")
    with torch.no_grad():
        assert torch.allclose(bridge(tokens()), SMALL.logits(parameters, tokens()), atol=2e-5)


def log_of_columns(shape: tuple[int, ...], _generator: torch.Generator) -> torch.Tensor:
    return torch.arange(1.0, shape[1] + 1).log().expand(shape).contiguous()


def test_a_parameter_may_begin_as_a_function_says():
    value = initial_value(ParameterSpec((2, 3), "state", log_of_columns), "name", 0)
    assert torch.allclose(value, torch.tensor([[0.0, math.log(2), math.log(3)]] * 2))
    wrong: Any
    for wrong in (lambda *_: torch.zeros(3, 2), lambda *_: torch.zeros(2, 3).double(), lambda *_: 0.0):
        with pytest.raises(InputError, match=r"the initializer of name must return a float32 tensor of shape \(2, 3\)"):
            initial_value(ParameterSpec((2, 3), "state", wrong), "name", 0)


def test_each_parameter_and_seed_has_a_random_stream_of_its_own():
    spec = ParameterSpec((50,), "state", lambda shape, generator: torch.rand(shape, generator=generator))
    values = [initial_value(spec, name, seed) for name in ("a", "b") for seed in (0, 1)]
    assert len({tuple(value.tolist()) for value in values}) == 4
    assert torch.equal(values[0], initial_value(spec, "a", 0))


@pytest.mark.parametrize("scale", [-0.1, math.nan, math.inf])
def test_impossible_scales_are_refused(scale):
    for initializer in (Normal, Uniform, Orthogonal):
        with pytest.raises(InputError, match="must be a finite number of at least 0"):
            initializer(scale)


def test_an_lstm_is_drawn_like_torchs():
    """Embeddings N(0, 1), all else uniform within 1 / sqrt(width), as fresh modules of torch are."""
    parameters = initialize(LSTM(width=64), ModelDims(500, 9), 0)
    token = parameters.pop("token")
    assert token.std().item() == pytest.approx(1, rel=4 / math.sqrt(2 * token.numel()))  # four standard errors
    for name, value in parameters.items():
        error = 4 / math.sqrt(value.numel())
        assert 0.9 / 8 < value.abs().max().item() <= 1 / 8, name
        assert value.std().item() == pytest.approx(1 / 8 / math.sqrt(3), rel=error), name
        assert value.mean().item() == pytest.approx(0, abs=error / 8 / math.sqrt(3)), name


def test_what_would_not_be_read_is_not_trained():
    linearized = Transformer(width=16, attention="prefix-sum")
    with pytest.raises(InputError, match="nothing would train: transformer with these settings does not read 'q,k'"):
        trained_names(linearized, DIMS, "q,k")
    assert trained_names(linearized, DIMS, "q,v")
    assert trained_names(SMALL, DIMS, "q,k")
