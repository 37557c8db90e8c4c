"""`--model hf:CONFIG`: networks of transformers as bodies, random or from a folder; bad ones are one line."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from icecore import InputError, load, train
from icecore.analysis.moments import moments_of
from icecore.analysis.pathway import Pathway, Setting
from icecore.analysis.pathway_measures import measures_of
from icecore.cli import main
from icecore.models import HuggingFace, ModelDims, initialize, trained_names
from icecore.models.check import require_model
from icecore.models.hf import network_of
from icecore.models.hf_config import require_counts
from icecore.tasks import Needle

transformers = pytest.importorskip("transformers")

STREAMS = ("embedding", "block0.stream", "block1.stream", "final")
DIMS = ModelDims(20, 12)
TASK = Needle(max_pairs=2, values=4, vocabulary=12, test_size=20)
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
LLAMA = {"model_type": "llama", **SIZES, "tie_word_embeddings": False}


def written(folder: Path, **changed: Any) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**LLAMA, **changed}))
    return str(folder)


def logits_of(network: Any, parameters: Any, tokens: torch.Tensor) -> torch.Tensor:
    network.load_state_dict(parameters)
    return network.eval()(tokens).logits


@pytest.mark.parametrize("name", ["LlamaConfig", "MambaConfig", "GPT2Config"])
def test_logits_are_those_of_transformers_and_the_seed_decides(name: str):
    model = HuggingFace(name, width=16, layers=1, heads=2)
    first, again, other = (initialize(model, DIMS, seed) for seed in (0, 0, 1))
    assert all(torch.equal(first[each], again[each]) for each in first)
    assert any(not torch.equal(first[each], other[each]) for each in first)
    assert first.keys() == model.specs(DIMS).keys()
    tokens = torch.randint(20, (2, 7), generator=torch.Generator().manual_seed(0))
    more = {} if name == "LlamaConfig" else {"n_positions": 12} if name == "GPT2Config" else {}
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 20, **more}
    sizes |= {"intermediate_size": 43} if name == "LlamaConfig" else {}
    config = getattr(transformers, name)(**sizes, tie_word_embeddings=False)
    network = transformers.AutoModelForCausalLM.from_config(config)
    torch.testing.assert_close(model.logits(first, tokens), logits_of(network, first, tokens))


def test_roles_are_the_embeddings_and_the_parts_of_the_body():
    gpt2 = HuggingFace("GPT2Config", width=16, layers=1, heads=2)
    names = trained_names(gpt2, DIMS, "embeddings")
    assert names == ["transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"]
    llama = HuggingFace(json.dumps(LLAMA))
    assert trained_names(llama, DIMS, "q") == ["model.layers.0.self_attn.q_proj.weight"]
    assert len(trained_names(llama, DIMS, "mlp")) == 3
    assert len(trained_names(llama, DIMS, "norms")) == 3


def test_initializations_change_the_matrices_of_the_body_only():
    library, matched, gaussian = (
        initialize(HuggingFace(json.dumps(LLAMA), init=init), DIMS, 0) for init in ("library", "matched", "gaussian")
    )
    q = "model.layers.0.self_attn.q_proj.weight"
    torch.testing.assert_close(matched[q], library[q] * 8)
    assert 0.2 < float(gaussian[q].std()) < 0.3
    for same in ("model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"):
        assert torch.equal(matched[same], library[same])
        assert torch.equal(gaussian[same], library[same])


def test_a_gain_scales_maps_and_not_the_decays_of_a_memory():
    library, matched, gaussian = (
        initialize(HuggingFace("MambaConfig", width=16, layers=1, init=init), DIMS, 0)
        for init in ("library", "matched", "gaussian")
    )
    block = "backbone.layers.0.mixer"
    torch.testing.assert_close(matched[f"{block}.in_proj.weight"], library[f"{block}.in_proj.weight"] * 8)
    for same in ("A_log", "conv1d.weight", "dt_proj.bias"):
        assert torch.equal(matched[f"{block}.{same}"], library[f"{block}.{same}"]), same
    assert torch.equal(library[f"{block}.A_log"][0].exp().round(), torch.arange(1.0, 17)), "a designed memory"
    assert 0.8 < float(gaussian[f"{block}.A_log"].std()) < 1.2, "a random one"


def test_a_random_run_loads_again_and_its_id_is_of_the_config(tmp_path: Path):
    def trained(spec: str) -> Any:
        return train(TASK, HuggingFace(spec), out=tmp_path / "runs", steps=2, batch=4, warmup_steps=1, device="cpu")

    here, there, other = (
        written(tmp_path / name, **more) for name, more in (("a", {}), ("b", {}), ("c", {"rms_norm_eps": 0.1}))
    )
    run = trained(here)
    assert run.config.run_id == trained(there).config.run_id != trained(other).config.run_id
    again = load(run.path)
    assert again.accuracy == run.accuracy
    assert all(torch.equal(value, again.parameters(0)[name]) for name, value in run.parameters(0).items())


def test_a_folder_of_weights_is_used_as_it_is(tmp_path: Path):
    folder = written(tmp_path / "pretrained", vocab_size=30, max_position_embeddings=128)
    network = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**LLAMA, vocab_size=30, max_position_embeddings=128)
    )
    network.save_pretrained(folder)
    model = HuggingFace(folder)
    assert model.weights
    first, second = (initialize(model, DIMS, seed) for seed in (0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    tokens = torch.randint(20, (2, 7))
    torch.testing.assert_close(model.logits(first, tokens), network.eval()(tokens).logits[..., :20])
    run = train(TASK, model, out=tmp_path / "runs", steps=2, batch=4, warmup_steps=1, device="cpu")
    frozen = "model.layers.0.self_attn.q_proj.weight"
    assert torch.equal(load(run.path).parameters(0)[frozen], network.state_dict()[frozen])  # type: ignore[arg-type]
    network.model.norm.weight.data += 1
    network.save_pretrained(folder)
    assert HuggingFace(folder).weights != model.weights
    with pytest.raises(InputError, match="put them back"):
        load(run.path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tie_word_embeddings": True}, 'set "tie_word_embeddings": false'),
        ({"vocab_size": 5}, "vocab_size 5, and the task needs"),
        (
            {"max_position_embeddings": 3},
            "positions of 100: raise it, drop it from config.json, or give fewer with --positions",
        ),
        ({"model_type": "lama"}, "did you mean 'llama'"),
        ({"model_type": "vit"}, "not of a causal language model"),
        ({"num_attention_heads": 3}, "transformers|refuses"),
    ],
)
def test_a_bad_config_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture, changed: dict, said: str):
    folder = written(tmp_path / "bad", **changed)
    assert (
        main(["train", "needle", "--max-pairs", "2", "--model", f"hf:{folder}", "--steps", "1", "--out", str(tmp_path)])
        == 2
    )
    assert_one_line(capsys, said)


def test_a_config_with_few_positions_runs_with_positions(tmp_path: Path):
    folder = written(tmp_path / "short", max_position_embeddings=12)
    flags = ["--max-pairs", "2", "--steps", "1", "--batch", "4", "--device", "cpu", "--positions", "12"]
    assert main(["train", "needle", "--model", f"hf:{folder}", *flags, "--out", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("hf:LlamConfig", "did you mean 'LlamaConfig'"),
        ("hf:ViTConfig", "causal language model"),
        ("hf:./nowhere", "there is no nowhere; give hf: and a config class"),
        ("hf", "hf:CONFIG"),
    ],
)
def test_a_wrong_name_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture, model: str, said: str):
    assert main(["train", "needle", "--model", model, "--steps", "1", "--out", str(tmp_path)]) == 2
    assert_one_line(capsys, said)


def test_warnings_of_transformers_are_left_out(caplog: pytest.LogCaptureFixture):
    """BERT warns that it is no decoder, then fails at 12 heads."""
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(InputError, match="transformers cannot make bert"):
            initialize(HuggingFace("BertConfig", width=32), DIMS, 0)
    finally:
        logger.removeHandler(caplog.handler)
    assert not caplog.records


def test_pickles_are_refused(tmp_path: Path):
    folder = written(tmp_path / "pickled")
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match="pickles"):
        HuggingFace(folder)


def test_only_the_folders_own_safetensors_are_read(tmp_path: Path, capfd: pytest.CaptureFixture):
    """An index may lead out of the folder, or to a pickle."""
    folder = Path(written(tmp_path / "sent", vocab_size=30, max_position_embeddings=128))
    network = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**LLAMA, vocab_size=30, max_position_embeddings=128)
    )
    network.save_pretrained(folder)
    torch.save({"model.norm.weight": torch.zeros(16)}, tmp_path / "evil.bin")
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    index = {"metadata": {}, "weight_map": dict.fromkeys(network.state_dict(), "../evil.bin")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
    capfd.readouterr()
    values = initialize(HuggingFace(str(folder)), DIMS, 0)
    assert "".join(capfd.readouterr()) == "", "bars and tables of transformers"
    assert torch.equal(values["model.norm.weight"], network.state_dict()["model.norm.weight"])
    assert torch.equal(values["lm_head.weight"], network.state_dict()["lm_head.weight"][:20])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda file: file.symlink_to("/dev/zero"), "it is a device, not a file"),
        (os.mkfifo, "it is a pipe, not a file"),
        (lambda file: file.write_bytes(b"\x80\x04 a pickle"), "holds no weights"),
        (lambda file: (file.touch(), os.truncate(file, 2**32)), "holds no weights"),
    ],
    ids=["device", "pipe", "pickle", "sparse"],
)
def test_weights_that_are_none_are_one_line(tmp_path: Path, harm: Any, said: str):
    folder = Path(written(tmp_path / "sent"))
    harm(folder / "x.safetensors")
    with pytest.raises(InputError, match=said):
        HuggingFace(str(folder))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"num_hidden_layers": 10**8}, "num_hidden_layers 100000000, and a body has at most 1,000"),
        ({"num_labels": 10**9}, "num_labels 1000000000"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantized"),
        ({"model_type": ["llama"]}, "no model_type"),
        ({"model_type": "someone--else"}, "no remote code"),
    ],
)
def test_a_config_that_would_take_minutes_or_code_is_refused(changed: dict, said: str):
    with pytest.raises(InputError, match=said):
        HuggingFace(json.dumps({**LLAMA, **changed}))


def test_a_width_of_experts_is_no_number_of_experts():
    require_counts({"shared_expert_intermediate_size": 5632, "expert_dim": 10**6})
    with pytest.raises(InputError, match="num_experts 5632"):
        require_counts({"num_experts": 5632})


def test_sizes_are_known_before_anything_is_allocated():
    model = HuggingFace(json.dumps({**LLAMA, "intermediate_size": 10**12}))
    assert model.specs(DIMS)["model.layers.0.mlp.up_proj.weight"].shape == (10**12, 16)
    tables = {"model_type": "gpt_neo", "max_position_embeddings": 10**6, "attention_types": [[["global"], 1]]}
    sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "tie_word_embeddings": False}
    with pytest.raises(InputError, match="tables of 1,000,0"):
        HuggingFace(json.dumps({**sizes, **tables})).specs(DIMS)


def test_the_network_is_not_reached_nor_remote_code_executed(tmp_path: Path):
    folder = Path(written(tmp_path / "sent", auto_map={"AutoModelForCausalLM": "evil.Evil"}, name_or_path="a/b"))
    (folder / "evil.py").write_text("raise SystemExit('executed')")
    code = f"""
import socket
def refuse(*_, **__):
    raise SystemExit("the network was asked")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
import huggingface_hub  # as in a notebook that was online before
from icecore import train
from icecore.tasks import Needle
from icecore.models import HuggingFace
task = Needle(max_pairs=2, values=4, vocabulary=12, test_size=20)
train(task, HuggingFace({str(folder)!r}), steps=1, batch=4, warmup_steps=1, device="cpu")
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


def test_a_soft_cap_after_the_body_is_refused():
    config = {**SIZES, "model_type": "gemma2", "tie_word_embeddings": False, "head_dim": 8, "num_key_value_heads": 2}
    model = HuggingFace(json.dumps({**config, "final_logit_softcapping": 0.01}))
    with pytest.raises(InputError, match="soft cap"):
        require_model(model, DIMS, 7, may_look_ahead=False)


def test_a_network_without_memory_or_with_nan_is_refused(monkeypatch: pytest.MonkeyPatch):
    model = HuggingFace(json.dumps(LLAMA))
    usual = initialize(model, DIMS, 0)
    for factor, said in ((0.0, "does not depend on earlier tokens"), (torch.nan, "not finite at initialization")):
        changed = {name: value * factor if "o_proj" in name else value for name, value in usual.items()}
        monkeypatch.setattr(HuggingFace, "initial_parameters", lambda *_, changed=changed: changed)
        with pytest.raises(InputError, match=said):
            require_model(model, DIMS, 7, may_look_ahead=False)


def test_transformers_is_imported_only_for_hf():
    code = "import sys, icecore.models, icecore.models.check; assert 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def assert_one_line(capsys: pytest.CaptureFixture, said: str) -> None:
    import re

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error:")
    assert re.search(said, line), line


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("GPT2Config", {"qkv", "out", "mlp", "norm"}),
        ("MambaConfig", {"in", "convolution", "select", "step", "decay", "skip", "out", "norm"}),
        ("GPTNeoXConfig", {"qkv", "out", "mlp", "norm"}),
        ("Qwen2Config", {"q", "k", "v", "out", "mlp", "norm"}),
    ],
)
def test_every_parameter_of_the_body_belongs_to_a_part(name: str, parts: set[str]):
    specs = HuggingFace(name, width=16, layers=1, heads=2).specs(DIMS)
    assert {spec.role for spec in specs.values()} - {"token", "position", "unembed"} == {
        f"body/{each}" for each in parts
    }


def test_sizes_follow_the_width_and_the_heads():
    """Sizes whose usual numbers do not fit other widths, or have another name or a default elsewhere."""
    qwen = json.loads(HuggingFace("Qwen2Config", width=16, layers=1, heads=2).config)
    assert (qwen["num_key_value_heads"], qwen["intermediate_size"]) == (2, 22016 * 16 // 4096)
    mamba = json.loads(HuggingFace("Mamba2Config", width=16, layers=1).config)
    assert mamba["num_heads"] * mamba["head_dim"] == 2 * 16
    assert mamba["num_heads"] % mamba["n_groups"] == 0
    for name, key, wanted in (
        ("OPTConfig", "ffn_dim", 64),
        ("GPTJConfig", "rotary_dim", 8),
        ("NemotronConfig", "num_key_value_heads", 2),
    ):
        assert json.loads(HuggingFace(name, width=16, layers=1, heads=2).config)[key] == wanted
    assert "head_dim" not in json.loads(HuggingFace("FalconConfig", width=16, layers=1, heads=2).config)


def test_a_network_that_does_not_run_at_its_sizes_is_one_line():
    """CodeGen splits its queries into four parts, so two heads do not fit."""
    with pytest.raises(InputError, match=r"transformers' codegen does not run at these sizes .*; take other sizes, or"):
        require_model(HuggingFace("CodeGenConfig", width=16, layers=1, heads=2), DIMS, 7, may_look_ahead=False)


@pytest.mark.parametrize("name", ["LlamaConfig", "MambaConfig", "GPT2Config"])
def test_activations_are_those_of_transformers_and_can_be_replaced(name: str):
    model = HuggingFace(name, width=16, layers=2, heads=2)
    parameters = initialize(model, DIMS, 0)
    tokens = torch.randint(20, (2, 7), generator=torch.Generator().manual_seed(0))
    values = model.trace(parameters, tokens)
    assert tuple(values) == (*model.streams, "logits") == (*STREAMS, "logits")
    network = network_of(model.config, DIMS, "cpu")
    network.load_state_dict(parameters)
    theirs = network(tokens, output_hidden_states=True, use_cache=False).hidden_states
    first = 0 if name == "MambaConfig" else 1  # its hidden states begin after the first block
    torch.testing.assert_close(values["block0.stream"], theirs[first])
    tokens_alone = network.get_input_embeddings()(tokens)
    torch.testing.assert_close(values["embedding"], theirs[0] if name == "GPT2Config" else tokens_alone)
    torch.testing.assert_close(values["final"], theirs[-1])
    torch.testing.assert_close(values["logits"], model.logits(parameters, tokens))

    def swap(name: str, value: torch.Tensor) -> torch.Tensor:
        return value.flip(0) if name == "block0.stream" else value

    torch.testing.assert_close(model.hidden(parameters, tokens, swap), model.hidden(parameters, tokens).flip(0))


def test_a_network_without_heads_is_looked_into_as_others():
    model, items = HuggingFace("MambaConfig", width=16, layers=1), TASK.test_set()
    assert model.heads is None
    dims = ModelDims(TASK.vocab_size, TASK.max_length)
    before, other = (initialize(model, dims, seed) for seed in range(2))
    pathway = Pathway(Setting(model, dims, TASK, items, items), before, other)
    found, details = measures_of(pathway, before)
    (own,) = [each for each in found if each.name == "new embeddings, old body"]
    assert own.here == own.refined == details["accuracy"]
    assert moments_of(model, before, items)["block0.stream"].count == int(items.lengths.sum())
