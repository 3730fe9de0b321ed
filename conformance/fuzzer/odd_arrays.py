"""Random small arrays with a manifest, most of them with one or two oddities.

An oddity is a function that changes a draft; it returns why the text leaves the answer to the
reader, or nothing if the specification settles it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.fuzzer import odd_values
from conformance.fuzzer.odd_values import Places
from conformance.generator.arrays import Array, canonical, declaration

__all__ = ["Draft", "draft"]

# Each chunk of the array is this many bytes of the source, or fewer.
SOURCE_BYTES = 64

MEMBERS = (
    "path", "offset", "length", "data", "checksum", "etag", "last_modified", "version", "size",
    "ofset", "Path", "_note", "org:note", ":", "_", "note", "",
)  # fmt: skip
CODECS: tuple[Any, ...] = (
    {"name": "gzip"}, "gzip", {"name": "gzip", "configuration": {}}, {"name": "gzip", "x": 1},
    {"name": "gzip", "must_understand": True}, {"name": "gzip", "must_understand": 1},
    {"name": "lzma"}, {"name": "lzma", "must_understand": False}, {}, None,
)  # fmt: skip


@dataclass
class Draft:
    """An array that is being made.

    Attributes
    ----------
    array : Array
        Shape, chunks and data type.
    metadata : dict
        Its ``zarr.json``.
    entries : dict
        Its manifest, by member name.
    configuration : dict
        Of the declaration.
    block : tuple of int or None
        Shape of its partitions.
    text : callable
        The last change to the text of a document.
    checksum : callable or None
        What the declaration says of the bytes of a document, if anything.
    digest_in_names : bool
        Whether the names of documents contain what it says.
    leeway : set of str
        Why readers may differ.
    """

    array: Array
    metadata: dict[str, Any]
    entries: dict[str, Any]
    configuration: dict[str, Any]
    block: tuple[int, ...] | None = None
    text: Callable[[bytes], bytes] = bytes
    checksum: Callable[[bytes], Any] | None = None
    digest_in_names: bool = False
    leeway: set[str] = field(default_factory=set)

    def files(self) -> dict[str, bytes]:
        """Return the files of the array, by path below its directory."""
        metadata = dict(self.metadata)
        found = {name: self.text(body) for name, body in self._documents().items()}
        configuration = self.configuration
        if self.checksum is not None:
            stated = {name: self.checksum(body) for name, body in found.items()}
            configuration = self._with_checksums(stated)
            found = {self._named(name, stated[name]): body for name, body in found.items()}
        metadata.setdefault("storage_transformers", [declaration(configuration)])
        return {"zarr.json": to_json(metadata), **found}

    def _with_checksums(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        configuration = dict(self.configuration)
        manifest = configuration["manifest"]
        if self.digest_in_names and isinstance(manifest, str):
            configuration["manifest"] = manifest.replace(".json", "-{digest}.json")
        if self.block is None:
            return configuration | {"checksum": stated["manifest.json"]}
        named = {name[len("manifest/") : -len(".json")]: one for name, one in stated.items()}
        return configuration | {"partitions": named}

    def _named(self, name: str, stated: Any) -> str:
        if not self.digest_in_names or not isinstance(stated, str):
            return name
        return name.replace(".json", f"-{stated.partition(':')[2][:16]}.json")

    def _documents(self) -> dict[str, bytes]:
        if self.block is None:
            return {"manifest.json": to_json(self.entries)}
        parts: dict[str, dict[str, Any]] = {}
        for key, entry in self.entries.items():
            try:
                numbers = [int(n) for n in key.split(".")] if self.block else []
                owner = [n // b for n, b in zip(numbers, self.block, strict=True)]
            except ValueError:
                owner = [0] * len(self.block)
            parts.setdefault(canonical(tuple(owner)), {})[key] = entry
        return {f"manifest/{name}.json": to_json(part) for name, part in parts.items()}


def to_json(value: Any) -> bytes:
    """Format JSON as Python does, lone surrogates as escapes."""
    return json.dumps(
        value, ensure_ascii=any("\ud800" <= c <= "\udfff" for c in str(value))
    ).encode()


def draft(chance: random.Random, places: Places) -> Draft:
    """Return a random array."""
    found = _plain(chance)
    for _ in range(chance.choice([0, 0, 1, 1, 1, 1, 2])):
        oddity = chance.choice(ODDITIES)
        leeway = oddity(chance, found, places)
        if leeway is not None:
            found.leeway.add(leeway)
    return found


def _plain(chance: random.Random) -> Draft:
    shape = tuple(chance.randint(1, 4) for _ in range(chance.choice([0, 1, 1, 2, 3])))
    array = Array(
        shape=shape,
        chunks=tuple(chance.randint(1, 2) for _ in shape),
        data_type=chance.choice(["uint8", "int16", "float32"]),
        fill_value=chance.choice([0, 7]),
        key_encoding=(chance.choice(["default", "v2"]), chance.choice("./")),
    )
    size = math.prod(array.chunks) * {"uint8": 1, "int16": 2, "float32": 4}[array.data_type]
    entries: dict[str, Any] = {}
    for index in array.indices():
        kind = chance.random()
        start = chance.randint(0, SOURCE_BYTES - size)
        if kind < 0.1:
            continue
        entry: dict[str, Any] = {"path": "../src/data.bin", "offset": start, "length": size}
        if kind < 0.2:
            entry = {}
        elif kind < 0.3:
            entry = {"data": base64.b64encode(bytes(range(size))).decode()}
        elif kind < 0.35:
            entry["length"] = SOURCE_BYTES + chance.choice([0, 1]) - start
        elif kind < 0.4:
            entry = {"path": "../src/data.bin", "offset": SOURCE_BYTES - size}
        key = canonical(index) if chance.random() < 0.9 else array.key(index)
        entries[key] = entry
    configuration = {"manifest": "./manifest.json"}
    return Draft(array, array.metadata(None), entries, configuration)


# Oddities -----------------------------------------------------------------------------


def _entry_of(chance: random.Random, draft: Draft, member: str = "path") -> dict[str, Any]:
    """Return an entry that has a member; a new one if there is none."""
    entries = [entry for entry in draft.entries.values() if isinstance(entry, dict)]
    having = [entry for entry in entries if member in entry]
    if having:
        found: dict[str, Any] = chance.choice(having)
        return found
    value = "../src/data.bin" if member == "path" else "AAECAw=="
    new = {member: value}
    draft.entries[canonical(tuple(0 for _ in draft.array.shape))] = new
    return new


def odd_path(chance: random.Random, draft: Draft, places: Places) -> None:
    """Name a source in another way."""
    _entry_of(chance, draft)["path"] = odd_values.reference(chance, places)


def odd_base(chance: random.Random, draft: Draft, places: Places) -> None:
    """Resolve paths against another base."""
    draft.configuration["base"] = odd_values.base(chance, places)
    for entry in draft.entries.values():
        if isinstance(entry, dict) and "path" in entry and chance.random() < 0.7:
            entry["path"] = chance.choice(
                ["data.bin", "./data.bin", "d/a%20b.bin", "../src/data.bin"]
            )


def odd_key(chance: random.Random, draft: Draft, places: Places) -> None:
    """Name a chunk in another way."""
    key = odd_values.chunk_key(chance, len(draft.array.shape))
    if draft.entries and chance.random() < 0.7:
        draft.entries[key] = draft.entries.pop(chance.choice(list(draft.entries)))
    else:
        draft.entries[key] = {"path": "../src/data.bin", "length": 4}


def odd_member(chance: random.Random, draft: Draft, places: Places) -> None:
    """Give a member of an entry another value, or an entry another member."""
    entry = _entry_of(chance, draft, chance.choice(["path", "path", "data"]))
    entry[chance.choice(MEMBERS)] = odd_values.json_value(chance)


def odd_entry(chance: random.Random, draft: Draft, places: Places) -> None:
    """Put another value in the place of an entry, or take a member of one away."""
    if draft.entries:
        key = chance.choice(list(draft.entries))
        entry = draft.entries[key]
        if isinstance(entry, dict) and entry and chance.random() < 0.6:
            del entry[chance.choice(list(entry))]
        else:
            draft.entries[key] = odd_values.json_value(chance)


def odd_time(chance: random.Random, draft: Draft, places: Places) -> None:
    """State when the source was modified."""
    _entry_of(chance, draft)["last_modified"] = odd_values.time(chance)


def odd_text(chance: random.Random, draft: Draft, places: Places) -> None:
    """State an entity tag, a version or a checksum."""
    text = "".join(chance.choices('aZ09"W/ é\n\x7f\x85:~,-', k=chance.randint(0, 6)))
    if chance.random() < 0.4:
        digest = "".join(chance.choices("0123456789abcdefABC ", k=chance.choice([7, 8, 8, 9, 32])))
        text = f"{chance.choice(['crc32c', 'crc32', 'md5', 'CRC32', 'sha1', ''])}:{digest}"
    name = chance.choice(["etag", "version", "checksum", "checksum"])
    _entry_of(chance, draft, chance.choice(["path", "data"]) if name == "checksum" else "path")[
        name
    ] = text


def odd_data(chance: random.Random, draft: Draft, places: Places) -> str | None:
    """Write inline data in another way."""
    entry = _entry_of(chance, draft, "data")
    entry["data"] = odd_values.base64(chance, str(entry["data"]))
    return "unused bits of base64"


def odd_configuration(chance: random.Random, draft: Draft, places: Places) -> None:
    """Give a member of the declaration another value."""
    names = ["manifest", "base", "codecs", "partition_shape", "partitions", "checksum", "x", "_x"]
    name = chance.choice(names)
    draft.configuration[name] = odd_values.json_value(chance)


def odd_manifest(chance: random.Random, draft: Draft, places: Places) -> None:
    """Say in another way where the document is; or write it inline."""
    options: list[Any] = [draft.entries, "manifest.json", "../a/manifest.json", "./manifest.json?a"]
    options += [
        "{partition}",
        "./manifest.json#",
        "manifest%2ejson",
        odd_values.reference(chance, places),
    ]
    draft.configuration["manifest"] = chance.choice(options)


def odd_metadata(chance: random.Random, draft: Draft, places: Places) -> str | None:
    """Change what the specification needs of the array's metadata."""
    ours = ["storage_transformers", "chunk-manifest-json"]
    member = chance.choice(["shape", "chunk_grid", "chunk_key_encoding", *ours])
    plain = declaration(draft.configuration)
    options: dict[str, list[Any]] = {
        "shape": [[], [0], [-1], [1.5], ["1"], None, [2**53]],
        "chunk_grid": [
            {"name": "hilbert", "configuration": {}}, {"name": "regular"}, "regular", None, {},
            {"name": "regular", "configuration": {"chunk_shape": [0]}},
            {"name": "regular", "configuration": {"chunk_shape": "1"}},
            {"name": "regular", "configuration": {"chunk_shape": [1] * 7}},
        ],
        "chunk_key_encoding": [
            {"name": "fanout", "configuration": {}}, {"name": "default"}, {"name": "v2"}, None, {},
            {"name": "default", "configuration": {"separator": "-"}}, "default", "v2", "fanout",
        ],
        "storage_transformers": [
            [plain, plain], [plain, {"name": "x", "must_understand": False}], [plain, "x"],
            [plain, {}], [{**plain, "must_understand": True}], [{**plain, "x": 1}], plain, [None],
            [{**plain, "must_understand": False}], [{**plain, "must_understand": None}], [[]],
            [{"name": "x"}, plain], [{"name": "x", "must_understand": 0}, plain],
            ["chunk-manifest-json"],
        ],
        "chunk-manifest-json": [
            {"must_understand": True}, {"must_understand": False}, {"must_understand": 1}, {},
            {"must_understand": True, "x": 1}, True, None, [],
        ],
    }  # fmt: skip
    draft.metadata[member] = chance.choice(options[member])
    return "metadata of the Zarr library" if member not in ours else None


def odd_partitions(chance: random.Random, draft: Draft, places: Places) -> None:
    """Split the manifest."""
    ndim = len(draft.array.shape)
    draft.block = tuple(chance.randint(1, 2) for _ in range(ndim))
    draft.configuration |= {
        "manifest": "./manifest/{partition}.json",
        "partition_shape": list(draft.block),
    }
    names = [canonical(tuple(chance.randint(0, 1) for _ in range(ndim))) for _ in range(2)]
    options: list[Any] = ["all", "All", names, [names[0]], [], ["0.0.0.0"], ["00"], [0], {}, None]
    if chance.random() < 0.7:
        draft.configuration["partitions"] = chance.choice(options)
    elif chance.random() < 0.5:
        draft.configuration["partition_shape"] = chance.choice(
            [
                [0] * ndim,
                [1] * (ndim + 1),
                [-1] * ndim,
                ["1"] * ndim,
                [2**53] * ndim,
                [True] * ndim,
                1,
            ]
        )


def odd_digests(chance: random.Random, draft: Draft, places: Places) -> None:
    """Say which bytes the documents have: theirs or others, in this form or in another one."""
    odd = chance.choice(
        [
            *(None, 1, "", "sha256", "sha256:", f"md5:{'0' * 32}", f"SHA256:{'0' * 64}"),
            *(f"sha256:{'0' * 63}", f"sha256:{'0' * 65}", f"sha256:{'A' * 64}", f":{'0' * 64}"),
        ]
    )
    changes: list[Callable[[bytes], Any]] = [
        _checksum, _checksum, _checksum, lambda body: _checksum(body + b" "), lambda _: odd,
    ]  # fmt: skip
    draft.checksum = chance.choice(changes)
    draft.digest_in_names = chance.random() < 0.5


def _checksum(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def odd_document(chance: random.Random, draft: Draft, places: Places) -> str | None:
    """Change the text of the document."""
    kind = chance.choice(["cut", "twice", "surrogate", "flip", "space", "nested", "bom", "after"])
    at = chance.random()
    changes: dict[str, Callable[[bytes], bytes]] = {
        "cut": lambda body: body[: int(at * len(body))],
        "twice": lambda body: body.replace(b'"path"', b'"path": "x", "path"', 1),
        "surrogate": lambda body: body.replace(b'"path"', b'"_a": "\\ud800", "path"', 1),
        "flip": lambda body: _flipped(body, int(at * len(body) * 8)),
        "space": lambda body: body.replace(b":", b"\t:\r\n ").replace(b",", b" ,\n"),
        "nested": lambda body: body.replace(b'"path"', b'"_a": [[[[]]]], "path"', 1),
        "bom": lambda body: b"\xef\xbb\xbf" + body,
        "after": lambda body: body + chance.choice([b" \n", b"{}", b"\x00", b",", b"//"]),
    }
    change = changes[kind]
    changed = change(to_json(draft.entries))
    draft.text = (
        change if kind not in {"flip", "cut", "after"} or draft.block else (lambda _: changed)
    )
    if kind in {"flip", "twice", "bom"}:
        return "what readers may refuse"
    return None


def _flipped(body: bytes, bit: int) -> bytes:
    found = bytearray(body)
    if found:
        found[bit // 8 % len(found)] ^= 1 << bit % 8
    return bytes(found)


def odd_codecs(chance: random.Random, draft: Draft, places: Places) -> None:
    """Encode the document, or say that it is."""
    draft.configuration["codecs"] = [chance.choice(CODECS)]
    at = chance.choice([None, None, chance.random()])

    def encode(body: bytes) -> bytes:
        packed = gzip.compress(body, 1, mtime=0)
        # The last eight bytes are a checksum and a size.
        return packed if at is None else _flipped(packed, 8 * (len(packed) - 1 - int(at * 8)))

    draft.text = encode


ODDITIES = (
    odd_path, odd_path, odd_path, odd_base, odd_key, odd_key, odd_member, odd_member, odd_entry,
    odd_time, odd_text, odd_data, odd_configuration, odd_manifest, odd_metadata, odd_partitions,
    odd_document, odd_codecs, odd_digests, odd_digests,
)  # fmt: skip
