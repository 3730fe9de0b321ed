"""The JavaScript reader: its own tests, and its adapters."""

from __future__ import annotations

import json

import pytest

from conformance.adapters.javascript.pages import READER
from conformance.adapters.javascript.programs import run


def test_its_own_tests_pass(npm: str) -> None:
    done = run(npm, "test", "--silent")
    assert "# pass" in done.stdout


@pytest.mark.parametrize("adapter", ["adapter.js", "plain-zarrita.js"])
def test_adapters_speak_the_protocol(node: str, adapter: str) -> None:
    requests = ['{"id": 0, "op": "hello", "protocol": 1}', "no JSON", '{"id": 2, "op": "fly"}']
    done = run(node, str(READER / adapter), stdin="\n".join(requests))
    hello, *failures = map(json.loads, done.stdout.splitlines())
    assert (hello["id"], hello["ok"], hello["protocol"]) == (0, True, 1)
    assert "read" in hello["features"]
    assert [answer["error"]["code"] for answer in failures] == ["unexpected"] * 2
    assert [answer["id"] for answer in failures] == [None, 2]
