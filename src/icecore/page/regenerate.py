"""Parameters that a page regenerates from their seed, as torch does on a CPU.

SOURCE: torch's `normal_` for 16 and more values: 24 bits of each Mersenne Twister output make a uniform number; blocks
of 16 become normal by Box and Muller's transform, and a last, incomplete block is drawn anew. Here it is the plain
reference of `web/src/playground/seeds.js`; a parameter counts as drawn again only if torch's value agrees.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from icecore.models.base import ParameterSpec
from icecore.models.initializers import Constant, Normal
from icecore.seeding import derive_seed

BLOCK = 16
AGREES = 1e-4  # in standard deviations: torch approximates logarithms and cosines in float32


def normal_values(count: int, seed: int) -> NDArray[np.float64]:
    """Return `count` standard normal values of the stream of a seed."""
    bits: Any = np.random.MT19937()
    bits._legacy_seeding(seed & 0xFFFFFFFF)  # torch's twister takes 32 bits
    is_whole = count % BLOCK == 0
    drawn = bits.random_raw(count if is_whole else count + BLOCK)
    uniform = (drawn & 0xFFFFFF) * 2.0**-24
    whole = count // BLOCK * BLOCK
    found = np.concatenate([box_muller(uniform[:whole]), uniform[whole:count]])
    if not is_whole:
        found[count - BLOCK :] = box_muller(uniform[count:])
    return found


def box_muller(uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """Transform blocks of 16 uniform values: the first eight of a block are radii, the others angles."""
    first, second = uniform.reshape(-1, 2, BLOCK // 2).transpose(1, 0, 2)
    radius, angle = np.sqrt(-2 * np.log(1 - first)), 2 * np.pi * second
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)


def drawn_again(spec: ParameterSpec, name: str, seed: int, value: Tensor) -> dict[str, float] | None:
    """Return how a page regenerates this parameter, or None if it cannot."""
    initializer = spec.initializer
    if isinstance(initializer, Constant):
        return {"constant": initializer.value} if bool((value == initializer.value).all()) else None
    if not isinstance(initializer, Normal) or value.numel() < BLOCK:
        return None
    again = initializer.std * normal_values(value.numel(), derive_seed(seed, "init", name))
    difference = np.abs(again - value.flatten().double().numpy()).max()
    return {"normal": initializer.std} if difference <= AGREES * initializer.std else None
