"""Headless Chromium: opens pages of a loopback server one after another, and looks at each."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from conformance.adapters.javascript.pages import serving
from conformance.runner.exchanges import Reply, Request

__all__ = ["Visit", "look"]

_SECONDS = 120
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Opens every page in a frame, waits until it says that it is done, and reports what was seen of it.
_HARNESS = """<!doctype html><link rel="icon" href="data:,"><script type="module">
const { visits, eyes } = await (await fetch("/visits")).json();
async function seen({ page, asked }) {
  const frame = document.createElement("iframe");
  frame.src = page;
  document.body.append(frame);
  await new Promise((resolve) => { frame.onload = resolve; });
  const body = frame.contentDocument.body;
  while (body.dataset.done !== "yes") await new Promise((resolve) => setTimeout(resolve, 20));
  return eval(eyes)(frame.contentDocument, asked);
}
let answers;
try {
  answers = [];
  for (const visit of visits) answers.push(await seen(visit));
} catch (error) {
  answers = String(error);
}
await fetch("/answers?" + encodeURIComponent(JSON.stringify(answers)));
</script><body></body>"""


@dataclass(frozen=True)
class Visit:
    """A page, by its address on the server, and what is asked of it."""

    page: str
    asked: Any = None


def look(
    chromium: str,
    respond: Callable[[Request], Reply],
    visits: Sequence[Visit],
    eyes: str,
    profile: Path,
) -> list[Any]:
    """Visit pages, and return what was seen of each.

    Parameters
    ----------
    chromium : str
        The program.
    respond : callable
        Answers the requests for the pages, and whatever they load from their own server.
    visits : sequence of Visit
        A page is done when its body has the attribute `data-done="yes"`.
    eyes : str
        A function of JavaScript: from the document of a page, and what is asked of it, to JSON.
    profile : Path
        A directory for the browser to make.
    """
    asked = {"visits": [vars(visit) for visit in visits], "eyes": eyes}
    answers: list[Any] = []
    answered = threading.Event()

    def host(request: Request) -> Reply:
        if request.path == "/harness":
            return Reply(200, {"Content-Type": "text/html"}, _HARNESS.encode())
        if request.path == "/visits":
            return Reply(200, {}, json.dumps(asked).encode())
        if request.path == "/answers":
            answers.append(json.loads(unquote(request.query)))
            answered.set()
            return Reply(200)
        return respond(request)

    with serving(host) as origin, _browsing(chromium, f"{origin}/harness", profile):
        assert answered.wait(_SECONDS), "the browser reported nothing"
    assert isinstance(answers[0], list), answers[0]
    return answers[0]


@contextlib.contextmanager
def _browsing(chromium: str, url: str, profile: Path) -> Iterator[None]:
    """Open a page; end all processes of the browser when the block ends."""
    command = [chromium, *_FLAGS, f"--user-data-dir={profile}", url]
    with (profile.parent / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
