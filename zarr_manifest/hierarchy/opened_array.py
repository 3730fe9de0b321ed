"""The state of an array as it was when zarr opened it, here and in other processes.

zarr's array keeps the metadata that it was opened with. After a change, the same chunk key may mean
other values, so these metadata must be read with the manifest that belongs to them.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Self, cast

from msgspec import Struct
from msgspec.structs import replace
from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.format import ArrayMetadata
from zarr_manifest.hierarchy.contradictions import replaced
from zarr_manifest.hierarchy.known_nodes import KnownNodes
from zarr_manifest.hierarchy.node_table import NATIVE, UNKNOWN, NodeState, is_manifest_array

if TYPE_CHECKING:
    from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer

# A task of dask takes what an array was along; beyond this many bytes, only a digest.
_MOST_BYTES = 64 * 1024


class PickledArray(Struct, frozen=True):
    """What an array was when zarr opened it, to be pickled with zarr's array.

    Parameters
    ----------
    path : str
        Path of the array.
    digest : bytes or None
        Of what its chunks depend on; None for a native array.
    metadata : bytes or None
        The same, compressed; None if it is unknown, or large.
    """

    path: str
    digest: bytes | None = None
    metadata: bytes | None = None


class OpenedArray(KnownNodes):
    """The nodes of a hierarchy, of which one array stays what it was when zarr opened it.

    Parameters
    ----------
    known : KnownNodes
        The nodes, with which all but their states is shared.
    path : str
        Path of the array.
    state : NodeState
        What it is.
    """

    _is_of_array = True

    def __init__(self, known: KnownNodes, path: str, state: NodeState) -> None:
        vars(self).update(vars(known), _states={path: state})
        self._path = path
        self._pickled: tuple[bytes, PickledArray] | None = None

    @classmethod
    def of(cls, known: KnownNodes, path: str, shown: ArrayV3Metadata) -> Self | None:
        """Return an array as it is now, which zarr opens with metadata; None if it may change.

        The metadata may be older than what was seen last.
        """
        state = known._states.get(path, UNKNOWN)
        array = state.array
        if array is NATIVE:
            return cls(known, path, replace(state, expected=None))
        if not is_manifest_array(array):
            return None
        if state.is_replaced and not _are_alike(array, shown):
            # In other processes, too.
            return cls(known, path, NodeState(array=replaced(path), expected=b""))
        if array.declared.is_unprotected:
            return None  # a document may be replaced
        return cls(known, path, replace(state, expected=None))

    @classmethod
    def unpickled(cls, known: KnownNodes, pickled: PickledArray) -> Self:
        """Return an array as it was when it was pickled."""
        path = pickled.path
        state = known._state(path)
        if state.unpickled is not None and state.unpickled[0] == pickled:
            return cast(Self, state.unpickled[1])
        if pickled.digest is None:
            found = cls(known, path, NodeState(array=NATIVE))
        else:
            known.declared.add(path)
            found = cls(known, path, NodeState(expected=pickled.digest))
            if pickled.metadata is not None:
                metadata = json.loads(zlib.decompress(pickled.metadata))
                found._set_array(path, ArrayMetadata("", metadata))
        state.unpickled = pickled, found
        return found

    def to_pickle_alone(self) -> PickledArray | None:
        """Return what is pickled of the array; None if it is unknown."""
        state = self.state_of(self._path)
        if state.array is NATIVE:
            return PickledArray(self._path)
        if not state.made_of:
            expected = state.expected
            return None if expected is None else PickledArray(self._path, expected)
        if self._pickled is None or self._pickled[0] is not state.made_of:
            array = state.metadata
            body = zlib.compress(json.dumps(array.of_chunks).encode(), 1)
            metadata = body if len(body) <= _MOST_BYTES else None
            self._pickled = state.made_of, PickledArray(self._path, array.digest, metadata)
        return self._pickled[1]


def _are_alike(array: ChunkManifestTransformer, shown: ArrayV3Metadata) -> bool:
    """Whether what is stored gives chunks the meaning that zarr was shown."""
    present = ArrayV3Metadata.from_dict(dict(array.metadata))
    first, second = (ArrayMetadata("", dict(each.to_dict())) for each in (present, shown))
    return first.digest == second.digest
