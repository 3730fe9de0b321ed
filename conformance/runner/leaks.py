"""Whether a message shows a secret that the runner knows. Pure.

Secrets are the credentials of the case and those in the environment, user information of URLs,
and query strings, which may be signatures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus

__all__ = ["known_secrets", "shows_secret"]

# What is shorter could stand in a message by accident.
_TELLING = 6
# Of a manifest's name, which messages may explain.
_PLACEHOLDERS = ("{partition}", "{digest}")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_QUERY = re.compile(r"\?([^\s#]{3,})$|\?([^\s#]{3,})#")
_USER_AND_PASSWORD = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://([^/?#@:]*:[^/?#@]+)@")


def known_secrets(
    content: Mapping[str, Any], documents: Iterable[bytes], environment: Iterable[str]
) -> frozenset[str]:
    """Return what no message may contain: of `case.json`, other documents, and the environment."""
    texts = [json.dumps({**content, "description": ""}).encode(), *documents]
    strings = [string for text in texts for string in _strings(text)]
    found = {*environment, *_credentials(content)}
    for string in strings:
        found |= set(_in_url(string))
    return frozenset(found | {unquote(secret) for secret in found})


def shows_secret(answer: Mapping[str, Any], secrets: Iterable[str]) -> bool:
    """Whether a message of an answer contains one of the secrets, escaped or not."""
    stated = [answer.get("error"), *(answer.get("problems") or ())]
    messages = [one["message"] for one in stated if one is not None]
    forms = [form for message in messages for form in (message, unquote(message))]
    return any(secret in form for secret in secrets for form in forms)


def _strings(document: bytes) -> Iterator[str]:
    """Yield the strings of a document, which need not be valid."""
    for token in _STRING.findall(document):
        try:
            yield json.loads(token)
        except ValueError:
            continue


def _credentials(value: Any) -> Iterator[str]:
    """Yield the credentials of `open` and of the servers."""
    if isinstance(value, list):
        for part in value:
            yield from _credentials(part)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from part.values() if name == "credentials" else _credentials(part)


def _in_url(string: str) -> Iterator[str]:
    if user := _USER_AND_PASSWORD.search(string):
        yield user[1]
    if query := _QUERY.search(string):
        whole = query[1] or query[2]
        yield f"?{whole}"
        values = [part.partition("=")[2] for part in whole.split("&")]
        for secret in (whole, *values):
            if len(secret) >= _TELLING and secret not in _PLACEHOLDERS:
                yield secret
                yield unquote_plus(secret)
