"""The tests of zarr_manifest."""
