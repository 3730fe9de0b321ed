"""Mutants that break a rule about entries, conditions, codecs of documents, or metadata."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from conformance.adapters.mutants.registry import broken_in, register, replace
from zarr_manifest.errors import InvalidEntryError
from zarr_manifest.format import conditions, declaration, document_codecs, manifest_document
from zarr_manifest.hierarchy import declared_array
from zarr_manifest.manifest import decoding, keys

# ------------------------------------------------------------------ entries


def _understand(change: Callable[[str, bool], bool]) -> None:
    """Let a function say whether the name of a member is known or an annotation."""

    def make(is_understood: Any) -> Any:
        return lambda name: change(name, is_understood(name))

    replace(manifest_document, "_is_understood", make)


@broken_in("entries/*")
def names_with_colons_refused() -> None:
    """Refuse annotations whose names contain a colon."""
    _understand(lambda name, known: known and (":" not in name or name.startswith("_")))


@broken_in("entries/*")
def names_with_underscores_refused() -> None:
    """Refuse annotations whose names begin with an underscore."""
    _understand(lambda name, known: known and (not name.startswith("_") or ":" in name))


@broken_in("entries/underscore-inside-a-name")
def underscores_anywhere_annotate() -> None:
    """Take every name with an underscore in it for an annotation."""
    _understand(lambda name, known: known or "_" in name)


@broken_in("entries/misspelt-path")
def annotations_alone_are_empty() -> None:
    """Take an entry of annotations alone for an explicitly empty chunk."""

    def make(judge: Any) -> Any:
        def changed(raw: Any) -> Any:
            entry, problem = judge(raw)
            return entry, None if problem == manifest_document._SAYS_NOTHING else problem

        return changed

    replace(manifest_document, "_judge", make)


@broken_in("entries/offset-plus-length-is-too-large")
def ends_unchecked() -> None:
    """Accept a range that ends above 2^53-1."""
    replace(
        manifest_document,
        "_contradiction",
        lambda contradiction: (
            lambda entry: None if "2^53" in (contradiction(entry) or "") else contradiction(entry)
        ),
    )


@broken_in("chunk-keys/*")
def keys_above_the_largest_integer() -> None:
    """Accept chunk keys with numbers above 2^53-1, which are then outside the grid."""

    def make(parse: Any) -> Any:
        def changed(key: str, ndim: int) -> Any:
            found = parse(key, ndim)
            numbers = key.split(".")
            is_long = all(re.fullmatch("0|[1-9][0-9]{0,17}", number) for number in numbers)
            if found is None and is_long and len(numbers) == ndim:
                return tuple(map(int, numbers))
            return found

        return changed

    replace(keys, "parse_canonical", make)


@broken_in("manifest-syntax/lone-surrogate-in-a-key")
def lone_surrogates_replaced() -> None:
    """Take an escaped lone surrogate for a replacement character."""
    lone = re.compile(rb"(?i)\\u(?:d[89ab][0-9a-f]{2}(?!\\ud[c-f])|d[c-f][0-9a-f]{2})")

    def make(interpret: Any) -> Any:
        def changed(document: bytes, *rest: Any, **options: Any) -> Any:
            return interpret(lone.sub(rb"\\ufffd", bytes(document)), *rest, **options)

        return changed

    replace(decoding, "interpret_document", make)


# ------------------------------------------------------------------ conditions

_TIMES = {
    "leap-seconds-accepted": (":60", ":59", "Accept the 60th second of a minute."),
    "space-for-t-accepted": (" ", "T", "Accept a space in place of the T."),
    "minutes-of-offsets-unlimited": (r"([+-][0-9]{2}):[6-9][0-9]$", r"\1:59", "Accept +12:60."),
    "hours-of-offsets-unlimited": (r"[+-]2[4-9]:", "+23:", "Accept +24:00."),
    "year-zero-accepted": ("^0000", "0001", "Accept the year 0."),
    "offsets-not-needed": (r"(:[0-9]{2})$", r"\1Z", "Accept a time without an offset."),
}


def _lax_times(pattern: str, replacement: str) -> Callable[[], None]:
    def apply() -> None:
        def make(parse: Any) -> Any:
            return lambda text: parse(re.sub(pattern, replacement, text))

        replace(conditions, "_parse_last_modified", make)

    return apply


for _name, (_pattern, _replacement, _what) in _TIMES.items():
    register(_name, _what, "entries/last-modified-*")(_lax_times(_pattern, _replacement))


@broken_in("combinations/time-in-lower-case")
def small_t_refused() -> None:
    """Refuse times with a small t or z."""

    def make(parse: Any) -> Any:
        def changed(text: str) -> Any:
            if text != text.upper():
                raise InvalidEntryError("'last_modified' is in lower case")
            return parse(text)

        return changed

    replace(conditions, "_parse_last_modified", make)


# ------------------------------------------------------------------ codecs of documents


@broken_in("encoded-manifests/bomb-of-two-frames")
def one_frame_only() -> None:
    """Undo the first member of a gzip file, or the first frame of zstd, and no other."""

    def make(_: Any) -> Any:
        return lambda body, new_frame, _limit, _what: new_frame().decompress(bytes(body))

    replace(document_codecs, "_decode_frames", make)


@broken_in("encoded-manifests/must-understand-of-a-codec")
def codecs_that_may_be_ignored() -> None:
    """Ignore an unknown codec that says that it need not be understood."""
    change_configurations(
        lambda stated: (
            {
                **stated,
                "codecs": [
                    codec
                    for codec in stated["codecs"]
                    if not (isinstance(codec, dict) and codec.get("must_understand") is False)
                ],
            }
            if isinstance(stated.get("codecs"), list)
            else stated
        )
    )


@broken_in("encoded-manifests/codec-must-understand-is-not-a-boolean")
def any_must_understand_of_codecs() -> None:
    """Accept every value of ``must_understand`` in a codec."""

    def plain(codec: Any) -> Any:
        if isinstance(codec, dict):
            return {k: v for k, v in codec.items() if k != "must_understand"}
        return codec

    change_configurations(
        lambda stated: (
            {**stated, "codecs": [plain(codec) for codec in stated["codecs"]]}
            if isinstance(stated.get("codecs"), list)
            else stated
        )
    )


def change_configurations(change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Let a function change the configurations of declarations."""

    def make(interpret: Any) -> Any:
        def changed(declared: Mapping[str, Any], must_understand: bool) -> Any:
            stated = declared.get("configuration")
            if isinstance(stated, dict):
                declared = {**declared, "configuration": change(dict(stated))}
            return interpret(declared, must_understand)

        return changed

    replace(declaration, "_interpret_one", make)


# ------------------------------------------------------------------ metadata


@broken_in("array-metadata/unknown-chunk-key-encoding")
def unknown_encodings_are_v2() -> None:
    """Take an unknown chunk key encoding for v2."""

    def make(_: Any) -> Any:
        return lambda _name, _declared: declared_array.ChunkKeyEncoding(
            {"chunk_key_encoding": "v2"}, 0
        )

    replace(declared_array, "_registered", make)
