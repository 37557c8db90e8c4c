"""Find the induction heads of a needle run in other libraries: TransformerLens and nnsight read its export.

    pip install 'icecore[lens,nnsight]'     # or one of them
    icecore export RUN DIR
    python examples/lens.py RUN DIR

Prints each layer-2 head's attention from the query to the value that is asked for, beside that of `icecore analyze`.
"""

import importlib.util
import sys
from collections.abc import Callable

import torch
from torch import Tensor

import icecore as ice

ITEMS = 200


def in_transformer_lens(folder: str, tokens: Tensor) -> list[Tensor]:
    """Return each layer's attention: (batch, head, query, key)."""
    from transformer_lens.model_bridge import TransformerBridge  # pyright: ignore[reportMissingImports]

    bridge = TransformerBridge.boot_transformers(folder, device="cpu")
    _, cache = bridge.run_with_cache(tokens)
    return [cache["pattern", layer] for layer in range(bridge.cfg.n_layers)]


def in_nnsight(folder: str, tokens: Tensor) -> list[Tensor]:
    """Return the same; only the eager implementation of attention has it."""
    import nnsight  # pyright: ignore[reportMissingImports]
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    model = nnsight.NNsight(network)
    with model.trace(tokens):
        maps = nnsight.save([block.attn.output[1] for block in model.transformer.h])
    return list(maps)


LIBRARIES: dict[str, Callable[[str, Tensor], list[Tensor]]] = {
    "transformer_lens": in_transformer_lens,
    "nnsight": in_nnsight,
}


def query_to_value(task: ice.tasks.Needle, batch: ice.Batch, maps: list[Tensor]) -> Tensor:
    """Return each head's mean attention, (layer, head), from an item's query to the value that is asked for."""
    row, query = torch.arange(len(batch)), batch.lengths - 1
    marker = batch.tokens[row, query] - task.first_query + task.first_marker
    value = (batch.tokens == marker[:, None]).int().argmax(dim=1) + 1  # a value follows its marker
    return torch.stack([attention[row, :, query, value].mean(dim=0) for attention in maps])


@torch.no_grad()
def main(run: str, folder: str) -> dict[str, Tensor]:
    """Return the scores by library, icecore's own first."""
    kept = ice.load(run, "cpu")
    task, seed = kept.config.task, kept.config.seeds[0]  # `icecore export` writes the first seed
    assert isinstance(task, ice.tasks.Needle)
    batch = task.test_set()[:ITEMS]
    own = ice.analysis.induction_scores(kept.config.model, kept.parameters(seed), task, batch)
    found = {"icecore": own.query_to_value}
    for library, attention in LIBRARIES.items():
        if importlib.util.find_spec(library) is not None:
            found[library] = query_to_value(task, batch, attention(folder, batch.tokens))
    return found


if __name__ == "__main__":
    for library, scores in main(*sys.argv[1:]).items():
        print(f"{library:>16}:", *(f"{score:.6f}" for score in scores[-1]))
