"""Read `hf:CONFIG`: a config class of transformers, or a folder with a config.json. No network, no remote code."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from icecore.errors import InputError, in_one_line, require, unknown_name
from icecore.models.huggingface import import_transformers

UNSAID = ("transformers_version", "_name_or_path", "architectures", "dtype", "use_cache", "auto_map", "id2label")
SIZES = {"width": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads"}
OF_TASK = ("vocab_size", "max_position_embeddings")  # set by the task, unless the config says them


def offline_transformers() -> Any:
    """Import transformers, which then never asks the network."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    return import_transformers()


def resolved(spec: str, sizes: dict[str, int | None]) -> str:
    """Return the config as canonical JSON, with these sizes; `spec` is a class, a folder, a config.json or JSON."""
    if spec.lstrip().startswith("{"):
        values = parsed(spec, "the config")
    elif spec.endswith("Config") and not Path(spec).exists():
        values = of_class(spec, {SIZES[name]: size for name, size in sizes.items() if size is not None})
        sizes = {}
    else:
        path = Path(spec)
        path = path / "config.json" if path.is_dir() else path
        require(path.is_file(), f"there is no {path}; give hf: and a config class, such as hf:LlamaConfig, or a folder")
        values = parsed(path.read_text(encoding="utf-8"), str(path))
    config = config_from(values)
    for name, size in sizes.items():
        found = getattr(config, SIZES[name], None)
        require(
            size is None or size == found,
            f"the config has {SIZES[name]} {found}, not {size}: drop --{name}, or change the config",
        )
    require(
        not config.tie_word_embeddings,
        'its embeddings are tied, so one cannot train alone: set "tie_word_embeddings": false in config.json (the '
        "unembedding then starts as a copy, if the folder has weights)",
    )
    kept = {key: value for key, value in config.to_dict().items() if key in values or key not in not_said(config)}
    return json.dumps({key: kept[key] for key in sorted(kept) if key not in UNSAID}, sort_keys=True)


def not_said(config: Any) -> list[str]:
    return [config.attribute_map.get(name, name) for name in OF_TASK] + ["label2id"]


def parsed(text: str, where: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON ({in_one_line(error)}); fix it and try again") from None
    require(isinstance(values, dict) and "model_type" in values, f"{where} has no model_type: it is no model's config")
    return values


def of_class(name: str, sizes: dict[str, int]) -> dict[str, Any]:
    """Return the config of a class at these sizes, untied; an MLP keeps its ratio to the width."""
    transformers = offline_transformers()
    auto = transformers.models.auto
    configs = auto.configuration_auto.CONFIG_MAPPING_NAMES
    known = [configs[kind] for kind in auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if kind in configs]
    if name not in known:
        raise unknown_name("causal language model of transformers", name, known)
    made, usual = getattr(transformers, name), getattr(transformers, name)()
    sizes = {key: size for key, size in sizes.items() if hasattr(usual, key) or key in usual.attribute_map}
    inner, width = getattr(usual, "intermediate_size", None), getattr(usual, "hidden_size", None)
    try:
        config = made(**sizes, tie_word_embeddings=False)
        if isinstance(inner, int) and isinstance(width, int) and config.intermediate_size == inner:
            scaled = max(1, inner * config.hidden_size // width)
            config = made(**sizes, tie_word_embeddings=False, intermediate_size=scaled)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{name} cannot be made with these sizes ({in_one_line(error)}); write a config.json"
        ) from None
    values = config.to_dict()
    return {key: value for key, value in values.items() if key not in not_said(config)}


def config_from(values: dict[str, Any]) -> Any:
    """Return transformers' config of these values."""
    transformers = offline_transformers()
    kind = values["model_type"]
    if kind not in transformers.CONFIG_MAPPING:
        raise unknown_name(
            "model_type of transformers, which has no remote code here", str(kind), transformers.CONFIG_MAPPING
        )
    made = transformers.CONFIG_MAPPING[kind]
    require(
        made in transformers.AutoModelForCausalLM._model_mapping,
        f"{made.__name__} is not of a causal language model: choose one, such as LlamaConfig",
    )
    try:
        config = made.from_dict({key: value for key, value in values.items() if key != "auto_map"})
    except Exception as error:  # whatever the config's own checks raise
        raise InputError(f"{made.__name__} refuses the config ({in_one_line(error)}); fix it and try again") from None
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):  # a padding row would not train
        setattr(config, name, None)
    return config


def weight_files(spec: str) -> list[Path]:
    """Return the safetensors files of a folder; none if it has no weights. Pickles are refused."""
    folder = Path(spec)
    if not folder.is_dir():
        return []
    found = sorted(folder.glob("*.safetensors"))
    pickles = sorted(each.name for kind in ("*.bin", "*.pt", "*.pth") for each in folder.glob(kind))
    require(
        bool(found) or not pickles,
        f"{folder} has weights as pickles ({', '.join(pickles[:2])}), which can run code and are not read: save them "
        "as safetensors, with save_pretrained(folder), or remove them for a random body",
    )
    return found


def digest_of(files: list[Path]) -> str:
    """Return a hash of the files' contents; nothing for no files."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16] if files else ""
