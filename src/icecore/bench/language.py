"""Speed of language modeling: tokens per second, beside the rate of matrix products and Hugging Face's GPT-2."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F

from icecore.bench.lower_bound import Product, lower_bound_seconds, operations, seconds_of
from icecore.bench.train import reference_steps, seconds_per_call, time_ours
from icecore.bench.user_loop import gpt2_without_cache, updates
from icecore.models import Transformer
from icecore.tasks import Batch, Task
from icecore.training import Precision, RunConfig, config_of

LARGE = {"cuda": 8192, "cpu": 1024}  # rows and columns of the product that measures the rate


@dataclass(frozen=True)
class RandomText(Task):
    """Windows of uniformly random tokens: as fast to train on as any text, and always available."""

    window: int = 512
    vocabulary: int = 10_000
    test_size: int = 1

    name: ClassVar[str] = "language"
    test_split: ClassVar = "separate"

    @property
    def vocab_size(self) -> int:
        return self.vocabulary

    @property
    def max_length(self) -> int:
        return self.window

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        tokens = torch.randint(self.vocabulary, (count, self.window + 1), generator=generator, device=generator.device)
        return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), torch.ones_like(tokens[:, 1:]).bool())

    def baselines(self) -> dict[str, float]:
        return {"chance": 1 / self.vocabulary}


@dataclass(frozen=True)
class LanguageRate:
    """One row; every time is in ms per step of one seed."""

    width: int
    layers: int
    trainable: str
    precision: str
    tokens: int  # per step
    ms_per_step: float
    tokens_per_second: float
    peak_gb: float | None  # peak GPU memory
    gflop: float  # matrix products per step, with attention
    product_tflops: float  # rate of a large product, measured in this run
    share_of_product_rate: float
    lower_bound_ms: float  # the matrix products alone, without attention
    reference_ms: float | None  # None: out of memory
    huggingface_ms: float | None  # on a GPU in bfloat16 by autocast


Case = tuple[Transformer, str]


def cases_for(device: torch.device, width: int | None, layers: int | None) -> list[Case]:
    """Return the paper's model, Random and Normal; on the CPU a narrow one."""
    chosen = width or (512 if device.type == "cuda" else 64)
    model = Transformer(width=chosen, layers=layers or 4, heads=8)
    return [(model, "embeddings"), (model, "all")]


def bench_language(
    cases: list[Case], device: torch.device, precision: Precision, seconds: float
) -> Iterator[LanguageRate]:
    """Yield one row per case; each implementation runs for about `seconds`."""
    with precision.in_matrix_products():
        side = LARGE[device.type]
        large = Product(1, side, side, side, precision.dtype)
        rate = large.operations / seconds_of(large, device)
    for model, trainable in cases:
        yield bench_case(model, trainable, device, precision, seconds, rate)
        if device.type == "cuda":
            torch.cuda.empty_cache()


def bench_case(
    model: Transformer, trainable: str, device: torch.device, precision: Precision, seconds: float, rate: float
) -> LanguageRate:
    task = RandomText(window=512 if device.type == "cuda" else 128)
    config = config_of(task, model, trainable, precision=precision, steps=200_000)
    training = config.training
    ours, peak, counts = time_ours(config, device, seconds)
    flop = operations(counts) + attention_operations(model, training.batch, task.window)
    with Precision.fp32.in_matrix_products():
        plain = ms_if_it_fits(lambda: reference_steps(config, device), seconds, device)
    with precision.in_matrix_products():
        huggingface = ms_if_it_fits(lambda: huggingface_step(config, task, device), seconds, device)
        lower_bound = lower_bound_seconds(counts, device)
    tokens = training.batch * task.window
    return LanguageRate(
        model.width,
        model.layers,
        trainable,
        precision,
        tokens,
        ms_per_step=1e3 * ours,
        tokens_per_second=tokens / ours,
        peak_gb=peak,
        gflop=flop / 1e9,
        product_tflops=rate / 1e12,
        share_of_product_rate=flop / ours / rate,
        lower_bound_ms=1e3 * lower_bound,
        reference_ms=plain,
        huggingface_ms=huggingface,
    )


def ms_if_it_fits(make: Callable[[], Callable[[], None]], seconds: float, device: torch.device) -> float | None:
    """Return ms per step, or None if out of memory, as the others may be at large widths."""
    try:
        return 1e3 * seconds_per_call(make(), seconds, device)
    except torch.OutOfMemoryError:
        return None


def attention_operations(model: Transformer, batch: int, window: int) -> int:
    """Count two products forward and five backward per layer, half of each because of causality."""
    return 7 * model.layers * batch * model.width * window**2


def huggingface_step(config: RunConfig, task: RandomText, device: torch.device) -> Callable[[], None]:
    """Return a careful user's step of `GPT2LMHeadModel`: fused attention, on a GPU in bfloat16 by autocast."""
    network = gpt2_without_cache(config.model, config.dims)
    torch.nn.Module.to(network, device)
    update = updates(network, config.trainable, config.training)
    generator = torch.Generator(device).manual_seed(0)

    def step() -> None:
        batch = task.draw(config.training.batch, generator)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = network(batch.tokens).logits
        update(F.cross_entropy(logits.flatten(0, 1).float(), batch.targets.flatten()))

    return step
