"""A headless Chromium driven over a pair of pipes (its DevTools protocol), with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
OPTIONS = (
    "--headless",
    "--no-sandbox",  # it may be root that runs the tests
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0  # seconds


class Page:
    """One tab: `call` a method of the protocol, `run` a script; `events` has everything that happened."""

    def __init__(self, read: int, write: int) -> None:
        self.read, self.write = read, write
        self.events: list[dict[str, Any]] = []
        self.left, self.number, self.session = b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self._next(end - time.monotonic())
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
        raise TimeoutError(f"{method}: no answer within {PATIENCE} s")

    def _next(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self.left:
            if not select([self.read], [], [], max(seconds, 0))[0]:
                return {}
            self.left += os.read(self.read, 1 << 20)
        message, _, self.left = self.left.partition(b"\0")
        answer = json.loads(message)
        if "method" in answer:
            self.events.append(answer)
        return answer

    def open(self, path: Path, width: int = 1400, height: int = 900, dark: bool = False) -> None:
        self.size(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call(
            "Emulation.setEmulatedMedia", features=[scheme, {"name": "prefers-reduced-motion", "value": "reduce"}]
        )
        self.call("Page.navigate", url=path.as_uri())
        self.until("document.readyState === 'complete'")

    def size(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def run(self, script: str) -> Any:
        """The value of an expression, a promise awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {script}")
            time.sleep(0.05)

    def scroll_to(self, element: str) -> None:
        """Until the page stands still: what is measured in between is soon elsewhere."""
        self.run(
            "self.start = scrollY; self.scrolled = false; addEventListener('scrollend', () => { scrolled = true })"
        )
        self.run(f"{element}.scrollIntoView({{behavior: 'instant', block: 'center'}})")
        self.until("scrolled || scrollY == start")

    def hover(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(picture))

    def complaints(self) -> list[str]:
        """Errors and warnings of scripts and of the browser."""
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            if event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
            if event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(str(params["entry"]))
        return found

    def requests(self) -> list[str]:
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]


def _pipe() -> tuple[int, int]:
    """Two ends with numbers of at least 10, so that 3 and 4 are free to be given away."""
    low = os.pipe()
    read, write = (fcntl(end, F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return read, write


@contextmanager
def browser() -> Iterator[Page]:
    """A fresh Chromium; it reads commands from its file descriptor 3 and answers on 4."""
    (theirs_in, ours_out), (ours_in, theirs_out) = _pipe(), _pipe()
    # Its children may still write to the profile for a moment after it has ended.
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        shell = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", str(CHROMIUM), *OPTIONS]
        process = subprocess.Popen(
            [*shell, f"--user-data-dir={profile}"], pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL
        )
        os.close(theirs_in), os.close(theirs_out)
        try:
            yield Page(ours_in, ours_out)
        finally:
            os.close(ours_out)
            process.terminate()
            process.wait(timeout=PATIENCE)
            os.close(ours_in)
