"""A headless Chromium for tests, driven through a pipe by the standard library alone: no driver, no network, no port.

SOURCE: the Chrome DevTools Protocol, with messages ended by a zero byte (`--remote-debugging-pipe`).
"""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root in containers, and open only pages of our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing is reachable
    "--remote-debugging-pipe",
)
SECONDS = 30.0


def chromium() -> str | None:
    """Return the path of a Chromium, None without one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab, with what it requested and logged."""

    def __init__(self, send: int, receive: int) -> None:
        self.send_to, self.receive_from = send, receive
        self.buffer, self.number, self.session = b"", 0, ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events that arrive meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        rest = memoryview(json.dumps(message).encode() + b"\0")
        while rest:
            rest = rest[os.write(self.send_to, rest) :]
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self.receive(deadline - time.monotonic())
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def receive(self, seconds: float) -> dict[str, Any]:
        """Return the next message, and note requests and errors among the events."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.receive_from], [], [], max(0.0, seconds))
            assert ready, "Chromium does not answer"
            part = os.read(self.receive_from, 1 << 20)
            assert part, "Chromium has ended"
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(line)
        self.note(message.get("method", ""), message.get("params", {}))
        return message

    def note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith("data:"):
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(parameters["exceptionDetails"].get("exception", {}).get("description")))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(str([each.get("value", each.get("description")) for each in parameters["args"]]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])

    def open(self, path: Path) -> float:
        """Open a page and wait until it is drawn; return the milliseconds that took."""
        self.requests.clear()
        self.errors.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("document.documentElement?.dataset.ready === 'true'")
        return self.run("performance.now()")

    def run(self, script: str) -> Any:
        """Return the value of an expression, awaited if it is a promise."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]["exception"].get("description")
        return found["result"].get("value")

    def wait_for(self, script: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not self.run(script):
            assert time.monotonic() < deadline, f"never true: {script}; {self.errors}"
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait until everything that was due is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))")

    def press(self, key: str, code: int, text: str = "") -> None:
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)
        self.settle()

    def resize(self, width: int, height: int, is_phone: bool = False) -> None:
        scale = 2 if is_phone else 1
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=is_phone
        )
        self.settle()

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark colours."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def screenshot(self, path: Path, whole: bool = False) -> None:
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def pdf(self, path: Path) -> None:
        printed = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(printed["data"]))


@contextlib.contextmanager
def opened_browser() -> Iterator[Page]:
    """Yield a page of a new Chromium, which ends with the block."""
    path = chromium()
    assert path is not None
    to_browser, from_us = os.pipe()
    from_browser, to_us = os.pipe()

    def with_pipes() -> None:
        """Chromium reads commands from descriptor 3 and writes answers to 4."""
        read, write = os.dup(to_browser), os.dup(to_us)
        os.dup2(read, 3)
        os.dup2(write, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={home}"],
            preexec_fn=with_pipes,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(to_us)
        try:
            yield Page(from_us, from_browser)
        finally:
            process.terminate()
            process.wait(SECONDS)
            os.close(from_us)
            os.close(from_browser)
