"""A headless Chromium for tests of pages, driven over its DevTools protocol through pipes.

    python -m tests.report_page.browser PAGE FRAGMENT PNG WIDTH HEIGHT [SELECTOR ...]

writes a screenshot of a page, such as those in docs/. Before that, it clicks on the first element
that each selector matches.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.preinstall import BROWSERS

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_PATIENCE_SECONDS = 120.0
SETTLED = """new Promise((done) => {
  const look = () => {
    if (document.querySelector(".ptx:empty")) setTimeout(look, 5);
    else done();
  };
  look();
})"""
"""Script that waits until the opened PTX is unpacked."""


def why_none() -> str:
    """Return the reason why this machine has no usable Chromium, or an empty text if it has one."""
    return "" if _program() else "no Chromium here; run: apt-get install chromium"


def _program() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Browser:
    """A browser that shows one page at a time, and stores the errors that the page causes.

    Attributes:
        complaints: Errors of scripts, and refusals by the Content-Security-Policy.
        asked: Addresses that were loaded, including the page's own.
    """

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self._numbers = itertools.count(1)
        self._pending = b""
        self._loaded = False

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        theirs, self._to = os.pipe()
        self._from, back = os.pipe()
        program = _program()
        assert program is not None
        # The browser reads from descriptor 3, and writes to descriptor 4.
        shell = f'exec "$@" 3<&{theirs} 4>&{back}'
        flags = (*_FLAGS, f"--user-data-dir={self._folder.name}")
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "-", program, *flags],
            pass_fds=(theirs, back),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(back)
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        session = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = session["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol for the page, and return the result."""
        return self._ask(method, self._session, **parameters)

    def open(
        self,
        path: Path,
        fragment: str = "",
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
    ) -> None:
        """Show an HTML file, and wait until it has loaded and its script has run."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        # Without a blank page first, a change of the fragment alone would not load the file again.
        for address in ("about:blank", path.as_uri() + fragment):
            self.complaints, self.asked, self._loaded = [], [], False
            self.ask("Page.navigate", url=address)
            while not self._loaded:
                self._note(self._read())

    def run(self, script: str) -> Any:
        """Evaluate a JavaScript expression in the page, and return its value.

        If the value is a promise, wait for the promise and return its result.
        """
        found = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, given by its name."""
        # Without a text, the key does not activate a button.
        text = {"text": "\r"} if key == "Enter" else {}
        for kind, more in (("keyDown", text), ("keyUp", {})):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, **more)

    def screenshot(self, path: Path) -> None:
        """Write a screenshot of the visible page as PNG."""
        shot = self.ask("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(shot))

    def _ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._from], [], [], _PATIENCE_SECONDS)
            more = os.read(self._from, 1 << 16) if ready else b""
            if not more:
                raise AssertionError("the browser has ended, or does not answer")
            self._pending += more
        text, _, self._pending = self._pending.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Page.loadEventFired":
            self._loaded = True
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.asked.append(parameters["request"]["url"])


if __name__ == "__main__":
    page, fragment, png, width, height, *selectors = sys.argv[1:]
    with Browser() as browser:
        browser.open(Path(page).resolve(), fragment, width=int(width), height=int(height))
        for selector in selectors:
            browser.run(f"document.querySelector({json.dumps(selector)}).click()")
            browser.run(SETTLED)
        browser.screenshot(Path(png))
