"""Read `hf:CONFIG`: a config class of transformers, or a folder with a config.json. No network, no remote code."""

import contextlib
import difflib
import hashlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import safetensors
from torch import Tensor

from icecore.errors import InputError, in_one_line, require, unknown_name
from icecore.models.base import MOST as MOST_OF_MODEL
from icecore.models.huggingface import import_transformers
from icecore.store.reading import MOST_JSON, open_regular, read_regular, require_regular

UNSAID = ("transformers_version", "_name_or_path", "architectures", "dtype", "use_cache", "auto_map", "id2label")
SIZES = {"width": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads"}
OF_TASK = ("vocab_size", "max_position_embeddings")  # set by the task, unless the config says them
COUNTED = ("layer", "block", "depth", "expert", "codebook", "label")  # in keys of numbers of modules
NOT_COUNTED = ("size", "dim")  # in keys of widths, such as shared_expert_intermediate_size
MOST_COUNTED = MOST_OF_MODEL["layers"]  # more are made for minutes, before their size is known
NOT_CAUSAL = "not of a causal language model: choose one, such as LlamaConfig"
REMOTE = ("auto_map",)  # names code to download


def offline_transformers() -> Any:
    """Import transformers in offline mode: it downloads nothing, kernels included."""
    os.environ["HF_HUB_OFFLINE"], os.environ["USE_HUB_KERNELS"] = "1", "NO"
    return import_transformers()


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Block network access within the block, even if transformers was imported before."""
    import huggingface_hub.constants as constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' progress bars and tables within the block."""
    from transformers.utils import logging

    had_bar, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bar:
            logging.enable_progress_bar()


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
        values = parsed(read_regular(path, MOST_JSON).decode("utf-8", errors="replace"), str(path))
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
    is_config = isinstance(values, dict) and isinstance(values.get("model_type"), str)
    require(is_config, f"{where} has no model_type: it is no model's config")
    return values


def of_class(name: str, sizes: dict[str, int]) -> dict[str, Any]:
    """Return the config of a class at these sizes, untied; an MLP keeps its ratio to the width."""
    transformers = offline_transformers()
    auto = transformers.models.auto
    configs = auto.configuration_auto.CONFIG_MAPPING_NAMES
    known = [configs[kind] for kind in auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if kind in configs]
    if name not in known:
        require(not hasattr(transformers, name), f"{name} is {NOT_CAUSAL}")
        raise unknown_name("causal language model of transformers", name, known)
    made, usual = getattr(transformers, name), getattr(transformers, name)()
    sizes = {key: size for key, size in sizes.items() if hasattr(usual, key) or key in usual.attribute_map}
    try:
        config = made(**sizes, **following(usual, sizes), tie_word_embeddings=False)
    except Exception as error:  # whatever the config's own checks raise
        raise InputError(
            f"{name} cannot be made with these sizes ({in_one_line(error)}); write a config.json, and give hf: and its "
            "folder"
        ) from None
    values = config.to_dict()
    return {key: value for key, value in values.items() if key not in not_said(config)}


MLP_SIZES = ("intermediate_size", "ffn_dim", "dff")  # endings of keys


def following(usual: Any, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes that keep their ratio to width or heads: of the MLP, of shared keys, of heads."""
    if not sizes:
        return {}
    said = usual.to_dict()
    width, heads = (sizes.get(SIZES[name], getattr(usual, SIZES[name], None)) for name in ("width", "heads"))
    found = {}

    def scale(key: str, of: str) -> None:
        before, whole, now = getattr(usual, key, None), getattr(usual, of, None), sizes.get(of)
        if isinstance(before, int) and isinstance(whole, int) and now is not None:
            found[key] = max(1, before * now // whole)

    for key in said:
        if key.endswith(MLP_SIZES):
            scale(key, "hidden_size")
    scale("num_key_value_heads", "num_attention_heads")
    shared = found.get("num_key_value_heads")
    if isinstance(heads, int) and "num_key_value_heads" in said and (shared is None or heads % shared):
        found["num_key_value_heads"] = heads
    # Some configs derive the size of a head.
    has_heads = isinstance(said.get("head_dim"), int) and "qk_rope_head_dim" not in said
    if has_heads and isinstance(width, int) and isinstance(heads, int):
        found["head_dim"] = max(1, width // heads)
    if isinstance(said.get("rotary_dim"), int) and isinstance(width, int) and isinstance(heads, int):  # GPT-J
        found["rotary_dim"] = min(said["rotary_dim"], width // heads)
    if {"num_heads", "head_dim", "expand"} <= said.keys() and "hidden_size" in sizes:  # Mamba-2
        inner = sizes["hidden_size"] * usual.expand
        found["head_dim"] = min(usual.head_dim, inner)
        found["num_heads"] = inner // found["head_dim"]
        found["n_groups"] = math.gcd(usual.n_groups, found["num_heads"])
    return found


def config_from(values: dict[str, Any]) -> Any:
    """Return transformers' config of these values."""
    transformers = offline_transformers()
    kind = values["model_type"]
    if kind not in transformers.CONFIG_MAPPING:
        close = difflib.get_close_matches(kind, list(transformers.CONFIG_MAPPING), n=5, cutoff=0.5)
        raise unknown_name("model_type of transformers, which has no remote code here", kind, [*close, "..."])
    made = transformers.CONFIG_MAPPING[kind]
    require(
        made in transformers.AutoModelForCausalLM._model_mapping,
        f"{made.__name__} is {NOT_CAUSAL}",
    )
    require_counts(values)
    require(
        values.get("quantization_config") is None,
        "its weights are quantized, and a body has plain ones: drop quantization_config from config.json",
    )
    try:
        config = made.from_dict(without_remote_code(values))
    except Exception as error:  # whatever the config's own checks raise
        raise InputError(f"{made.__name__} refuses the config ({in_one_line(error)}); fix it and try again") from None
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):  # a padding row would not train
        setattr(config, name, None)
    return config


def require_counts(values: Any) -> None:
    """Raise for a config with too many layers or labels, which would take minutes to build."""
    for key, value in values.items() if isinstance(values, dict) else ():
        is_count = type(value) is int and any(word in key for word in COUNTED)
        is_count = is_count and not any(word in key for word in NOT_COUNTED)
        require(
            not is_count or value <= MOST_COUNTED,
            f"the config has {key} {value}, and a body has at most {MOST_COUNTED:,}: lower it in config.json",
        )
        require_counts(value)


def without_remote_code(values: Any) -> Any:
    """Return the config without the keys that name code to download, in nested configs too."""
    if not isinstance(values, dict):
        return values
    return {key: without_remote_code(value) for key, value in values.items() if key not in REMOTE}


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
        with opened(path), os.fdopen(open_regular(path), "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16] if files else ""


def tensors_in(files: list[Path]) -> dict[str, Tensor]:
    """Return the tensors of all files. Index files are ignored: they may point outside the folder."""
    found: dict[str, Tensor] = {}
    for path in files:
        with opened(path) as file:
            for name in file.keys():  # noqa: SIM118 (not a dict)
                require(name not in found, f"two files of {path.parent} hold {name}: remove one of them")
                found[name] = file.get_tensor(name)
    return found


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a file of weights, whose header must fit its size."""
    try:
        require_regular(path)
        with safetensors.safe_open(path, framework="pt") as file:
            yield file
    except (OSError, safetensors.SafetensorError) as error:
        raise InputError(f"{path} holds no weights ({error}); save them again, with save_pretrained") from error
