"""Independent, named random streams from one seed."""

import hashlib

import torch


def derive_seed(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed for the stream `names` of `seed`; different names give unrelated streams."""
    text = "/".join(str(part) for part in ("icecore", seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def make_generator(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a torch generator on `device`, seeded for the stream `names` of `seed`."""
    generator = torch.Generator(device=device)
    generator.manual_seed(derive_seed(seed, *names))
    return generator
