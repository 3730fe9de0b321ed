"""Adapter of ``zarr_manifest``, through nothing but its public names."""
