"""A headless Chromium, driven by its own protocol over two pipes. Entry point: `Browser`."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Root may not use the sandbox. The rest keeps the browser from calling anybody.
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe")
# Seconds for an answer, and for a condition of a page.
PATIENCE = 30


def find() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. Its events are kept in `events`, each a method and its parameters."""

    def __init__(self, program: str):
        # The browser reads from 3 and writes to 4.
        reads, self.to = os.pipe()
        self.fr, writes = os.pipe()
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command = [program, *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"]
        shell = f'exec "$@" 3<&{reads} 4>&{writes}'
        self.process = subprocess.Popen(["bash", "-c", shell, "bash", *command], pass_fds=(reads, writes), stderr=subprocess.DEVNULL)
        os.close(reads), os.close(writes)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()
        self.profile.cleanup()

    def call(self, method: str, **parameters):
        """The answer to a call."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.events.append((answer.get("method"), answer.get("params", {})))
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def receive(self) -> dict:
        while b"\0" not in self.buffer:
            if not select.select([self.fr], [], [], PATIENCE)[0]:
                raise TimeoutError("the browser does not answer")
            read = os.read(self.fr, 1 << 20)
            if not read:
                raise RuntimeError("the browser ended")
            self.buffer += read
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def evaluate(self, script: str):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, script: str):
        """Waits until an expression in the page is true, and returns its value."""
        end = time.monotonic() + PATIENCE
        while not (value := self.evaluate(script)):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {script}")
        return value

    def open(self, url: str) -> None:
        # Else the old page answers.
        self.evaluate("window.isOld = true")
        self.call("Page.navigate", url=url)
        self.until("!window.isOld && document.readyState === 'complete'")
