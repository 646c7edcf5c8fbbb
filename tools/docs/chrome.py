"""Headless Chromium, driven over a pipe with its debugging protocol: opens pages, types, clicks, looks.

    with Chrome(path) as chrome:
        chrome.open("file:///...")
        chrome.run("document.title")

Messages are JSON, ended by a zero byte, on the descriptors 3 and 4 of the browser.

SPDX-License-Identifier: Apache-2.0
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
           "--allow-file-access-from-files=false", "--no-first-run")
PATIENCE = 60  # seconds for any single thing: the machine may be busy


class Chrome:
    """One browser with one page."""

    def __init__(self, path):
        self.profile = tempfile.mkdtemp()
        from_us, self.out = os.pipe()
        self.into, to_us = os.pipe()

        def descriptors():  # in the child; moved away first, since either may be 3 or 4
            read, write = os.dup(from_us), os.dup(to_us)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen([path, *OPTIONS, f"--user-data-dir={self.profile}", "about:blank"], preexec_fn=descriptors,
                                        close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self.number, self.pending, self.events, self.complaints = 0, b"", [], []
        self.session = None
        target = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.profile, ignore_errors=True)

    # ---- messages ----

    def _next(self, deadline):
        """The next message; events that complain are noted."""
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.into], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self.into, 1 << 20) if ready else b""
            if not piece:
                raise TimeoutError("Chromium does not answer")
            self.pending += piece
        text, self.pending = self.pending.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self._note(message["method"], message["params"])
        return message

    def _note(self, method, event):
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(a.get("value", a.get("description"))) for a in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.complaints.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")
        elif method == "Network.loadingFailed" and not event.get("canceled"):
            self.complaints.append(f"not loaded: {event['errorText']}")
        self.events.append(method)

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while (answer := self._next(deadline)).get("id") != self.number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    # ---- what a person does ----

    def open(self, url):
        """Goes to a page and waits until it is loaded."""
        self.events = []
        self.send("Page.navigate", url=url)
        deadline = time.monotonic() + PATIENCE
        while "Page.loadEventFired" not in self.events:
            self._next(deadline)

    def run(self, expression):
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return answer["result"].get("value")

    def until(self, expression):
        """Waits until an expression is true; whether it became so."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if self.run(expression):
                    return True
            except RuntimeError:  # between two pages
                pass
            time.sleep(0.05)
        return False

    def size(self, width, height, mobile=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def scheme(self, name):
        """light or dark, as the system would prefer"""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))
