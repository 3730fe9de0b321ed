"""What an array declares: step 1 of the precedence."""

from __future__ import annotations

from typing import Any, NoReturn

from conformance.adapters.json_lines import RefusedError

__all__ = ["invalid", "parse_declaration", "unsupported"]

_NAME = "chunk-manifest-json"
_LOCK = {"must_understand": True}
_DECLARATION = {"name", "configuration", "must_understand"}
_NOT_IMPLEMENTED = ("codecs", "partition_shape", "partitions", "checksum")
_PLACEHOLDERS = ("{partition}", "{digest}")
_CONFIGURATION = {"manifest", "base", *_NOT_IMPLEMENTED}


def parse_declaration(metadata: dict[str, Any]) -> dict[str, Any] | None:
    """Return the configuration that an array declares; None for a native array."""
    found = _parse_transformers(metadata.get("storage_transformers"))
    lock = metadata.get(_NAME, _LOCK)
    if lock != _LOCK or lock["must_understand"] is not True:
        invalid("the lock is not {'must_understand': true}")
    if _NAME in metadata and found is None:
        invalid("there is a lock, but no declaration: it was lost")
    return found


def _parse_transformers(transformers: Any) -> dict[str, Any] | None:
    if transformers is None:
        return None
    if not isinstance(transformers, list):
        invalid("storage_transformers is not a list")
    found = []
    for one in transformers:
        stated = {"name": one} if isinstance(one, str) else one
        if not isinstance(stated, dict) or not isinstance(stated.get("name"), str):
            invalid("a storage transformer has no name")
        must_understand = stated.get("must_understand", True)
        if not isinstance(must_understand, bool):
            invalid("must_understand is not a boolean")
        if stated["name"] == _NAME:
            found.append(_configuration(stated))
        elif must_understand:
            unsupported(f"the storage transformer {stated['name']!r}")
    if len(found) > 1:
        unsupported(f"{_NAME}, declared more than once")
    return found[0] if found else None


def _configuration(declaration: dict[str, Any]) -> dict[str, Any]:
    if declaration.get("must_understand") is False:
        invalid("must_understand is false")
    if unknown := declaration.keys() - _DECLARATION:
        invalid(f"the declaration has unknown members {sorted(unknown)}")
    stated = declaration.get("configuration")
    if not isinstance(stated, dict):
        invalid("configuration is not an object")
    if unknown := stated.keys() - _CONFIGURATION:
        invalid(f"configuration has unknown members {sorted(unknown)}")
    manifest = stated.get("manifest")
    if not isinstance(manifest, str | dict) or manifest == "":
        invalid("manifest is neither a reference nor an object")
    if not isinstance(stated.get("base", ""), str):
        invalid("base is not a string")
    for feature in _NOT_IMPLEMENTED:
        if feature in stated:
            unsupported(feature)
    if isinstance(manifest, str) and any(one in manifest for one in _PLACEHOLDERS):
        invalid("manifest is a template, and nothing says of which documents")
    return stated


def invalid(message: str) -> NoReturn:
    """Refuse metadata."""
    raise RefusedError("invalid_configuration", "declaration", message)


def unsupported(what: str) -> NoReturn:
    """Refuse what others may implement."""
    raise RefusedError("unsupported_transformer", "declaration", f"not implemented: {what}")
