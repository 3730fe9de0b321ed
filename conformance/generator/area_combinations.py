"""Area ``combinations``: rules that are each kept alone, and must be kept together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.generator.area_array_metadata import with_metadata
from conformance.generator.arrays import Array, canonical
from conformance.generator.case import Case, to_json
from conformance.generator.frames import add_crc32c, crc32c, gzip_member, zstd_bomb
from conformance.generator.partitioned import ROW, split
from conformance.generator.standard import ENTRIES, SOURCE, standard

AREA = "combinations"
_BLOCK = 2**17  # of zstd
_GZIP = {"name": "gzip", "configuration": {"level": 5}}
_CREDENTIALS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "not-a-secret-of-anybody"}


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    yield from _far_away()
    yield from _hierarchies_on_servers()
    yield from _of_places()
    yield from _of_metadata()
    yield _between_two_codecs()
    yield _in_two_groups()


# ------------------------------------------------------------------ documents and sources far away


def _guarded(source: bytes, path: str) -> dict[str, dict[str, Any]]:
    """Return entries with a checksum of each chunk and two conditions on their source."""
    etag = hashlib.sha256(source).hexdigest()[:16]
    entries, _ = ROW.lay_out(path)
    for index in ROW.indices():
        entries[canonical(index)] |= {
            "checksum": f"crc32c:{crc32c(ROW.chunk(index)):08x}",
            "etag": f'"{etag}"',
            "last_modified": "2024-01-01T00:00:00Z",
            "example.org:run": [1],
        }
    return entries


def _split(name: str, description: str, *rules: Mapping[str, Any], **options: Any) -> Case:
    """Make a case of encoded documents of blocks, and a guarded source, on two servers."""
    _, source = ROW.lay_out("")
    case = Case(
        f"{AREA}/{name}",
        "partitioned-manifests",
        description,
        allow=[{"prefix": "@HTTP@/m/"}, {"prefix": "@HTTP2@/"}],
        needs=["partitions", "encoded-manifests", "checksums", "source-conditions", "http"],
        **options,
    )
    configuration = {
        "manifest": "@HTTP@/m/{partition}.json.gz",
        "base": "@HTTP2@/store/",
        "partition_shape": [2],
        "partitions": "all",
        "codecs": [_GZIP, {"name": "crc32c"}],
    }
    case.array(array=ROW, configuration=configuration).source("store/data.bin", source)
    for block, document in split(_guarded(source, "data.bin"), (2,)).items():
        case.source(f"m/{block}.json.gz", add_crc32c(gzip_member(to_json(document))))
    own = [rule for rule in rules if rule["path"].startswith("/m/")]
    return case.serve("http", *own).serve("http2", *(rule for rule in rules if rule not in own))


def _far_away() -> Iterator[Case]:
    yield (
        _split(
            "split-encoded-and-guarded",
            "A split manifest in encoded documents on one server, for a source with checksums and "
            "conditions on another: only the documents that are needed are asked for, without "
            "credentials of any kind.",
        )
        .reads()
        .reads(selection=[[5, 8]])
        .gets([3], {"last": 2}, ROW.chunk((3,))[-2:])
        .seen("http", paths=["/m/0.json.gz", "/m/1.json.gz"], without_headers=["authorization"])
    )
    yield (
        _split(
            "lost-document-of-many-rules",
            "The document of a block that is said to have one has gone (410): an error for its "
            "chunks, and none for those of other blocks.",
            {"path": "/m/1.json.gz", "status": 410},
        )
        .reads(selection=[[0, 4]])
        .refuses("manifest_not_found", "manifest", selection=[[3, 5]])
    )
    yield _split(
        "changed-source-of-many-rules",
        "The source has another entity tag than the entries say, from a server that ignores "
        "conditions: none of its bytes is decoded.",
        {"path": "/store/data.bin", "ignore_conditions": True, "headers": {"ETag": '"other"'}},
    ).refuses("source_changed", "chunk")
    yield _split(
        "redirected-source-of-many-rules",
        "The source redirects to a place on the first server that only looks like the prefix of "
        "the documents: it is refused for the chunk, and not for the manifest.",
        {"path": "/store/data.bin", "status": 307, "location": "@HTTP@/m2/data.bin"},
    ).refuses("location_not_allowed", "chunk")
    yield _split(
        "redirected-document-of-many-rules",
        "A document redirects to where nothing is authorised: it is refused for the manifest, "
        "and its chunks do not read as missing.",
        {"path": "/m/0.json.gz", "status": 301, "location": "@HTTP@/elsewhere/0.json.gz"},
    ).refuses("location_not_allowed", "manifest", selection=[[0, 1]])


def _hierarchies_on_servers() -> Iterator[Case]:
    entries, source = ROW.lay_out("data.bin")
    case = Case(
        f"{AREA}/named-blocks-of-a-hierarchy-on-a-server",
        "partitioned-manifests",
        "Of a hierarchy on a server, the documents of blocks that are not named are not asked for: "
        "that the server fails for them does not matter.",
        via="http",
        needs=["partitions"],
    )
    configuration = {
        "manifest": "./m/{partition}.json",
        "partition_shape": [1],
        "partitions": ["1", "3"],
    }
    case.array(array=ROW, configuration=configuration).put("a/data.bin", source)
    for block, document in split(entries, (1,)).items():
        case.put(f"a/m/{block}.json", document)
    broken = [{"path": f"/a/m/{block}.json", "status": 500} for block in (0, 2)]
    yield case.serve("http", *broken, root="hierarchy").reads(missing=[(0,), (2,)])


# ------------------------------------------------------------------ places


def _of_places() -> Iterator[Case]:
    private = {
        "prefix": "s3://data/private/", "endpoint": "@S3@", "credentials": _CREDENTIALS,
    }  # fmt: skip
    public = {"prefix": "s3://data/", "endpoint": "@S3@"}
    for name, allow in (("longest-first", [private, public]), ("longest-last", [public, private])):
        yield (
            Case(
                f"{AREA}/prefix-within-a-prefix-{name}",
                "authorisation",
                "Of several prefixes that cover a location the longest says how it is read, in "
                "whichever order the user names them: this one has the credentials.",
                allow=allow,
                needs=["s3-credentials"],
            )
            .array(manifest={k: {**e, "path": "s3://data/private/d"} for k, e in ENTRIES.items()})
            .source("data/private/d", SOURCE)
            .serve("s3", credentials=_CREDENTIALS)
            .reads()
        )
    for name, host in (("hyphen", "-host"), ("dot", ".host")):
        yield standard(
            f"{AREA}/host-that-begins-with-a-{name}",
            "hosts-and-buckets",
            f"Names of hosts do not begin with a {name}: clients would take some for options, and "
            "others for names of their own domain.",
            manifest={"0": ENTRIES["0"], "1": {"path": f"http://{host}/data.bin"}},
        ).refuses("invalid_path", "manifest")
    yield standard(
        f"{AREA}/time-in-lower-case",
        "source-conditions",
        "T and Z may be written in lower case, as RFC 3339 says: the condition is kept like any "
        "other.",
        manifest={k: {**e, "last_modified": "2999-01-01t00:00:00z"} for k, e in ENTRIES.items()},
    ).reads()


# ------------------------------------------------------------------ metadata


def _of_metadata() -> Iterator[Case]:
    yield with_metadata(
        f"{AREA}/shape-before-key-encoding",
        "precedence",
        "Step 2: the shape of the array comes before its chunk key encoding, although nothing but "
        "the name of the encoding tells that it is unknown.",
        {"shape": "4", "chunk_key_encoding": {"name": "urn:example:hilbert"}},
    ).refuses("invalid_configuration", "declaration")
    yield with_metadata(
        f"{AREA}/transformer-before-shape",
        "precedence",
        "Step 1, with a transformer that nobody knows, comes before the shape of the array.",
        {"shape": "4"},
        transformers=[{"name": "urn:example:x"}],
    ).refuses("unsupported_transformer", "declaration")
    yield with_metadata(
        f"{AREA}/declaration-before-another-transformer",
        "precedence",
        "Transformers are judged in their order: what is wrong with this one comes before another "
        "one that is unknown.",
        {},
        transformers=[
            {"name": "chunk-manifest-json", "configuration": {"manifest": 1}},
            {"name": "urn:example:x"},
        ],
    ).refuses("invalid_configuration", "declaration")


def _between_two_codecs() -> Case:
    """Make a case in which a document exceeds the limit only before its last codec is undone."""
    text = json.dumps(ENTRIES).encode()
    document = text[:-1] + b" " * _BLOCK + b"}"
    end = add_crc32c(document)[len(document) - 1 :]
    return (
        standard(
            f"{AREA}/limit-between-two-codecs",
            "limits",
            "The limit holds for what each codec returns: this document has two bytes less than "
            "it allows, and with the checksum that the first codec appended two bytes more.",
            limits={"manifest_bytes": len(document) + 2},
            needs=["encoded-manifests", "manifest-zstd"],
        )
        .array(configuration={"manifest": "m.zst", "codecs": ["crc32c", "zstd"]})
        .put("a/m.zst", zstd_bomb(text[:-1], b" ", 1, end))
        .refuses("limit_exceeded", "manifest")
    )


def _in_two_groups() -> Case:
    """Make a case in which the same relative reference means four different sources."""
    case = Case(
        f"{AREA}/one-reference-in-four-arrays",
        "path-resolution",
        "The same path in four arrays, with and without a base, inline and in a document: each "
        "resolves against its own array and base, and none against another's.",
    )
    for number, (path, configuration, at) in enumerate(
        (
            ("g/a", {"manifest": "../m.json"}, "g/a/d.bin"),
            ("g/b", {"manifest": "../m.json", "base": "../"}, "g/d.bin"),
            ("h/a", {"manifest": {"0": {"path": "d.bin"}}}, "h/a/d.bin"),
            ("h/b", {"manifest": {"c/0": {"path": "d.bin"}}, "base": "../../"}, "d.bin"),
        )
    ):
        array = Array(shape=(2,), values=(10 * number + 1, 10 * number + 2))
        case.array(path, array, configuration=configuration).put(at, array.chunk((0,)))
        case.reads(path)
    return case.put("g/m.json", {"0": {"path": "d.bin"}})
