"""One HTML file from data: scripts and styles inside, a policy that forbids every request, and tables for no script."""

import base64
import hashlib
import html
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from icecore.errors import printable, printable_line, require
from icecore.reporting.table import Table

STATIC = Path(__file__).parent / "static"
DIGITS = 6  # significant digits of measured numbers

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="icecore">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="page"></div>
<noscript>
<main>
<h1>{title}</h1>
<p>With scripts off, these are the tables; with scripts on, the page also has plots, runs and curves.</p>
{tables}
</main>
</noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page_html(data: dict[str, Any], title: str, tables: Sequence[Table] = ()) -> str:
    """Return the file. Names and texts in the data are data: none of them becomes markup."""
    script = static("page.js")
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest(script)}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return TEMPLATE.format(
        policy=policy,
        title=html.escape(printable_line(title)),
        style=static("page.css"),
        tables="\n".join(table.html() for table in tables),
        data=as_script(data),
        script=script,
    )


def static(name: str) -> str:
    """Return a file that `npm run build` in `web/` makes."""
    text = (STATIC / name).read_text(encoding="utf-8")
    require("</script" not in text.lower() and "</style" not in text.lower(), f"{name} would end its own element")
    return text


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def as_script(data: dict[str, Any]) -> str:
    """Return JSON that cannot end its script element or begin a comment in it."""
    text = json.dumps(clean(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def clean(value: Any) -> Any:
    """Return JSON with numbers rounded, those that are not finite as null, and control characters shown as text."""
    if isinstance(value, dict):
        return {printable(str(key)): clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [clean(each) for each in value]
    if isinstance(value, float):
        return rounded(value)
    return printable(value) if isinstance(value, str) else value


def rounded(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    found = float(f"{value:.{DIGITS}g}")
    return int(found) if found.is_integer() and abs(found) < 10**DIGITS else found
