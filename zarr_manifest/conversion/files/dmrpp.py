"""DMR++ documents through VirtualiZarr: every variable in the document."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree, parse_one_by_one
from zarr_manifest.conversion.nodes import ArrayNode
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.virtualizarr_internals import group_of
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import join
from zarr_manifest.manifest import Manifest

_DAP = "{http://xml.opendap.org/ns/DAP/4.0#}"
_DMRPP = "{http://xml.opendap.org/dap/dmrpp/1.0.0#}"

_NUMBER = re.compile("U?Byte|U?Int(8|16|32|64)|Float(32|64)")
_NO_VARIABLES = frozenset(["Dimension", "Attribute", "Group", "Enumeration"])
_SUFFIX = ".dmrpp"


def read_dmrpp(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a DMR++ document, which describes the file of the same name without ``.dmrpp``.

    Raises
    ------
    NotConvertibleError
        It is not a DMR++ document, or its name does not end with ``.dmrpp``.
    """
    if not url.endswith(_SUFFIX):
        raise NotConvertibleError(f"the name of a DMR++ document must end with {_SUFFIX!r}")
    readers: Any = library("obspec_utils.readers")
    reader = readers.EagerStoreReader(*registry.resolve(url))
    try:
        root = ElementTree.fromstring(bytes(reader.readall()))
    except ElementTree.ParseError as error:
        raise NotConvertibleError(f"the document is not XML: {error}") from error
    tree = FileTree()
    for path, element in _groups(root, ""):
        _read_group(url, registry, path, element, tree)
    return tree


def _groups(element: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, element
    for below in element.iterfind(f"{_DAP}Group"):
        name = below.get("name")
        yield from _groups(below, join(path, name))


def _read_group(url: str, registry: Any, path: str, element: Any, tree: FileTree) -> None:
    parsers: Any = library("virtualizarr.parsers")
    variables: dict[str, Any] = {}
    wanted: list[str] = []
    for child in element:
        kind = child.tag.removeprefix(_DAP)
        if not child.tag.startswith(_DAP) or kind in _NO_VARIABLES:
            continue
        name = child.get("name")
        variables[name] = child
        reason = _reason_against(child, kind)
        if reason is None:
            wanted.append(name)
        else:
            tree.refuse(join(path, name), reason)

    def parse(names: Sequence[str]) -> Mapping[str, Any]:
        parser = parsers.DMRPPParser(group=path or None, skip_variables=set(variables) - set(names))
        with warnings.catch_warnings():
            # It warns where it should raise; what it leaves out is noticed below.
            warnings.simplefilter("ignore")
            group = group_of(parser(url, registry))
        attributes.update(group.metadata.attributes)
        return dict(group.arrays)

    attributes: dict[str, Any] = {}
    try:
        arrays, refused = parse_one_by_one(wanted, parse) if wanted else (dict(parse([])), {})
    except FOREIGN_ERRORS as error:
        raise NotConvertibleError(f"VirtualiZarr cannot read the document: {error}") from error
    tree.add_group(path, attributes)
    tree.add_arrays(path, arrays)
    for name, array in arrays.items():
        node = tree.made.get(join(path, name))
        if isinstance(node, ArrayNode) and not array.shape:
            tree.made[node.path] = _scalar(url, variables[name], node)
    for name in wanted:
        if name not in arrays:
            reason = refused.get(name, "it does not say where the bytes are")
            at = join(path, name)
            tree.refuse(at, f"VirtualiZarr cannot express it: {reason}")


def _reason_against(variable: Any, kind: str) -> str | None:
    """Return why a variable would be read incorrectly, or None."""
    if _NUMBER.fullmatch(kind) is None:
        return f"its type {kind!r} is not numeric, and its chunks are not ones that Zarr can decode"
    chunks = variable.find(f"{_DMRPP}chunks")
    if chunks is None:
        return "the document does not say where its chunks are"
    if chunks.get("byteOrder", "LE") != "LE":
        return "its numbers are big-endian, which VirtualiZarr's parser ignores"
    unknown = set(chunks.get("compressionType", "").split()) - {"shuffle", "deflate"}
    if unknown:
        return f"VirtualiZarr's parser ignores its filters {sorted(unknown)}"
    filters = chunks.get("compressionType", "").split()
    if "shuffle" in filters[1:]:
        return f"its filters are listed as {filters}, but compressed bytes are never shuffled"
    found = list(chunks.iterfind(f"{_DMRPP}chunk"))
    if len({chunk.get("chunkPositionInArray") for chunk in found}) != len(found):
        return "some of its chunks are stored in several pieces"
    for chunk in found:
        if filters and chunk.get("fm", "0").strip("0x"):
            return "some of its chunks have a filter mask, but Zarr decodes all chunks alike"
        if chunk.get("href") is not None:
            return "its chunks are in other files, which VirtualiZarr's parser ignores"
    return None


def _scalar(url: str, variable: Any, node: ArrayNode) -> ArrayNode:
    """Return a zero-dimensional variable with its reference, which VirtualiZarr leaves out."""
    chunk = variable.find(f"{_DMRPP}chunks/{_DMRPP}chunk")
    if chunk is None:
        return node
    start, length = int(chunk.get("offset")), int(chunk.get("nBytes"))
    place = url.removesuffix(_SUFFIX)
    return replace(
        node, manifest=Manifest.from_columns((), paths=place, offsets=start, lengths=length)
    )
