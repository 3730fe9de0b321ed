"""A hierarchy's own store: opened, located and listed, and kept within its place."""

from zarr_manifest.stores.byte_requests import requested_range, slice_of
from zarr_manifest.stores.checked_store import entries_below, inside_store, list_own
from zarr_manifest.stores.opening import (
    StoreLike,
    base_directory,
    open_hierarchy,
    store_as_zarr_would,
)
from zarr_manifest.stores.own_store import OwnStore, TranslatedStore, value_of
from zarr_manifest.stores.places import (
    OwnKeys,
    directory_of,
    hierarchy_url,
    local_store,
    object_url,
    same_place,
    store_urls,
)
from zarr_manifest.stores.relative_sources import (
    can_list,
    hierarchy_reader,
    hierarchy_sources,
    refused_key,
    store_errors,
    store_failure,
    store_name,
)
from zarr_manifest.stores.store_listing import (
    Listing,
    link_outside,
    list_inside,
    list_members,
    list_names,
    listed_directory,
    not_listable,
)
from zarr_manifest.stores.web_store import CONSOLIDATE, unchangeable, unknown_members
