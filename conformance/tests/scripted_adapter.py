"""An adapter that does what `do.json` in the hierarchy says, step by step; standard library only.

Each step is an object: `fetch` (list of [method, URL, headers], before anything else),
`stderr` (text), `files` (to be written below the hierarchy), `meet` (a directory, in which it waits
until as many processes as `others` says have come), then one of `answer` (members of the
answer), `line` (a raw line), `hex` (its bytes), `flood` (of this many characters, `repeat`, without
a line break), `exit` (status), `hang`, `close` (its output), or `echo` (answers an error with the
request).
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

HELLO = {
    "ok": True,
    "name": "scripted",
    "version": "1.0",
    "protocol": 1,
    "features": ["read", "get_chunk", "list", "validate", "http", "hierarchy-http", "limits"],
}


def load(hierarchy: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]]
    if not hierarchy.startswith("http://"):
        steps = json.loads((Path(hierarchy) / "do.json").read_bytes())
    else:
        assert hierarchy.endswith("/")
        with urllib.request.urlopen(hierarchy + "do.json") as response:
            steps = json.load(response)
    return steps


def fetch(method: str, url: str, headers: dict[str, str]) -> None:
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request) as response:
            response.read()
    except urllib.error.HTTPError as error:
        error.close()


def meet(directory: Path, others: int) -> None:
    directory.mkdir(exist_ok=True)
    (directory / str(os.getpid())).write_text(str(os.getpid()), encoding="utf-8")
    while len(os.listdir(directory)) < others:  # noqa: PTH208
        time.sleep(0.01)


def respond(number: int, members: dict[str, Any]) -> None:
    print(json.dumps({"id": number, **members}), flush=True)


def perform(request: dict[str, Any], do: dict[str, Any]) -> None:
    for wanted in do.get("fetch", ()):
        fetch(*wanted)
    sys.stderr.write(do.get("stderr", ""))
    sys.stderr.flush()
    for name, text in do.get("files", {}).items():
        path = Path(request["hierarchy"]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if "meet" in do:
        meet(Path(do["meet"]), do["others"])
    match do:
        case {"answer": answer}:
            respond(request["id"], {"ok": True, **answer})
        case {"line": line}:
            print(line, flush=True)
        case {"hex": data}:
            sys.stdout.buffer.write(bytes.fromhex(data) + b"\n")
            sys.stdout.flush()
        case {"flood": count, "repeat": text}:
            sys.stdout.write(text * count)
            sys.stdout.flush()
        case {"exit": status}:
            os._exit(status)
        case {"hang": _}:
            time.sleep(600)
        case {"close": _}:
            os.close(1)
            time.sleep(600)
        case {"echo": _}:
            error = {"code": "unexpected", "phase": None, "message": json.dumps(request)}
            respond(request["id"], {"ok": False, "error": error})


def main() -> None:
    position: dict[str, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "hello":
            respond(request["id"], HELLO | json.loads(sys.argv[1]))
            continue
        hierarchy = request["hierarchy"]
        step = position.setdefault(hierarchy, 0)
        position[hierarchy] += 1
        perform(request, load(hierarchy)[step])


if __name__ == "__main__":
    main()
