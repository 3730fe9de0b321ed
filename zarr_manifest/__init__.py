"""Open the bytes you already have as one Zarr hierarchy.

Implements the Zarr v3 storage transformer ``chunk-manifest-json`` for zarr.

- Read: :class:`ManifestStore` for ``zarr.open`` and xarray, or :func:`enable` for code
  that opens paths and URLs. :func:`anonymous`, :func:`environment` and :class:`Limits`
  say what reading may do.
- Write: :func:`create_array` and :func:`write_manifest`, with entries or a :class:`Manifest`;
  :func:`clean` removes what they replaced.
- Inspect: :func:`contents`, :func:`validate` and :func:`verify`.
- Keep versions: :func:`snapshot`, :func:`identity` and :func:`diff`.

All errors are :class:`ManifestError`; each class is in :mod:`zarr_manifest.errors`. Other
formats and references are converted by :mod:`zarr_manifest.conversion`. The classes of
results are in ``zarr_manifest.inspection`` (`contents`, `validate` and `verify`),
``zarr_manifest.writing`` (`clean`), ``zarr_manifest.manifest`` (the references of a manifest)
and ``zarr_manifest.locations`` (:meth:`ManifestStore.locations`); what readers of your own take
and return, in ``zarr_manifest.sources``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zarr_manifest import errors as errors
    from zarr_manifest.conversion import ModelStore as ModelStore
    from zarr_manifest.conversion import append as append
    from zarr_manifest.conversion import concat as concat
    from zarr_manifest.conversion import diff as diff
    from zarr_manifest.conversion import from_model as from_model
    from zarr_manifest.conversion import snapshot as snapshot
    from zarr_manifest.conversion import to_model as to_model
    from zarr_manifest.conversion import trim as trim
    from zarr_manifest.errors import ManifestError as ManifestError
    from zarr_manifest.format import Limits as Limits
    from zarr_manifest.hierarchy import ManifestStore as ManifestStore
    from zarr_manifest.inspection import contents as contents
    from zarr_manifest.inspection import identity as identity
    from zarr_manifest.inspection import validate as validate
    from zarr_manifest.inspection import verify as verify
    from zarr_manifest.integrations import enable as enable
    from zarr_manifest.manifest import Manifest as Manifest
    from zarr_manifest.sources import anonymous as anonymous
    from zarr_manifest.sources import environment as environment
    from zarr_manifest.writing import clean as clean
    from zarr_manifest.writing import create_array as create_array
    from zarr_manifest.writing import edit as edit
    from zarr_manifest.writing import entries as entries
    from zarr_manifest.writing import recover as recover
    from zarr_manifest.writing import write_manifest as write_manifest

__version__ = "0.1.0.dev0"

# Type checkers read the imports above; this would have them believe that every name is there.
if not TYPE_CHECKING:
    # By package, which is imported when one of its names is first used: reading does not need what
    # writes.
    _NAMES = {
        "conversion": "ModelStore append concat diff from_model snapshot to_model trim",
        "errors": "ManifestError",
        "format": "Limits",
        "hierarchy": "ManifestStore",
        "inspection": "contents identity validate verify",
        "integrations": "enable",
        "locations": "",
        "manifest": "Manifest",
        "sources": "anonymous environment",
        "writing": "clean create_array edit entries recover write_manifest",
    }
    __all__ = sorted(" ".join(_NAMES.values()).split())

    def __getattr__(name: str) -> Any:
        """Return a public name, or a package, when it is first used."""
        # Not above: to import the package alone loads nothing else.
        from zarr_manifest.lazy_names import from_modules

        return from_modules(__name__, _NAMES)(name)

    def __dir__() -> list[str]:
        """Return all names, those too that have not been used yet."""
        return sorted({*globals(), *__all__, *_NAMES})
