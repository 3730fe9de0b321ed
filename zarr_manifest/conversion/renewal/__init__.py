"""Renewal: what a hierarchy says of sources or documents that have changed, brought up to date."""

from zarr_manifest.conversion.renewal.accepting import AcceptanceReport, accept
from zarr_manifest.conversion.renewal.completing import complete, with_checksums
from zarr_manifest.conversion.renewal.objects import recorded_objects, states_of, with_states
from zarr_manifest.conversion.renewal.relocating import relocate
from zarr_manifest.conversion.renewal.renewing import RefusedSource, RenewalReport, refresh
