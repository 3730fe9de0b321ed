"""The bytes of authorised locations; the only package that fetches.

A byte range is where the bytes begin and end that are wanted of an object. A request is one
question to a store or a server, for one range or several merged ones. An object reader answers
those for the objects of one store; a range reader is what users bring for storage that this
package does not know.
"""

from typing import TYPE_CHECKING

from zarr_manifest.lazy_names import from_modules
from zarr_manifest.sources.access import (
    GIVE_CREDENTIALS,
    Access,
    Allow,
    access_by_prefix,
    anonymous,
    cloud_of,
    describe_access,
    environment,
    reader_of,
)
from zarr_manifest.sources.byte_ranges import (
    WHOLE,
    SourceRange,
    known_size,
    missing_object,
    out_of_bounds,
    slice_bounds,
    source_range,
)
from zarr_manifest.sources.concurrency import SharedCalls, in_decoding_thread, in_order, in_own_loop
from zarr_manifest.sources.directories import Directory, link_outside
from zarr_manifest.sources.given_readers import ObjectPart as ObjectPart
from zarr_manifest.sources.given_readers import RangeReader as RangeReader
from zarr_manifest.sources.keys_in_stores import local_directories, may_be_remote, urls_of
from zarr_manifest.sources.local_files import FileBody, FileReader
from zarr_manifest.sources.momentary_files import MOMENTARY, undetectable_writers
from zarr_manifest.sources.own_files import OwnFiles
from zarr_manifest.sources.plan import plan_requests
from zarr_manifest.sources.processes import (
    import_for_bulk,
    import_for_reading,
    import_meanwhile,
    require_obstore_threads,
)
from zarr_manifest.sources.proxies import within_host
from zarr_manifest.sources.sources import DEFAULT_MAX_GAP, NamedStores, Sources
from zarr_manifest.sources.web import WebServer, is_web_reader, web_reader_of

if TYPE_CHECKING:
    from zarr_manifest.sources.arrival import NO_MEMORY, Arrival, Receiver
    from zarr_manifest.sources.each_range import read_each
    from zarr_manifest.sources.object_reader import ObjectReader as ObjectReader
    from zarr_manifest.sources.object_reader import known_cause
    from zarr_manifest.sources.present_states import ObjectVersion, Pace, object_states
    from zarr_manifest.sources.range_reading import (
        ManyRanges,
        RangeError,
        SourceObject,
        read_ranges,
    )

# Type checkers read the imports above; this would have them believe that every name is there.
if not TYPE_CHECKING:
    __getattr__ = from_modules(
        __name__,
        {
            "arrival": "NO_MEMORY Receiver",
            "each_range": "read_each",
            "object_reader": "known_cause",
            "present_states": "ObjectVersion Pace object_states",
            "range_reading": "ManyRanges RangeError SourceObject read_ranges",
        },
    )
