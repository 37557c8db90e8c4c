"""Code of a document made small, so that a test can run it: three steps of narrow bodies."""

import re

SMALLER = {
    r"warmup_steps=\d+": "warmup_steps=1",
    r"\bsteps=\d+": "steps=3",
    r"snapshots=\d+": "snapshots=1",
    r"\bbatch=\d+": "batch=8",
    r"\bwidth=128": "width=16",
    r"width in \([\d, ]+\)": "width in (8,)",
}


def made_small(code: str) -> str:
    for pattern, smaller in SMALLER.items():
        code = re.sub(pattern, smaller, code)
    return code
