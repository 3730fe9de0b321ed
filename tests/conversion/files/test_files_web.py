"""Files on web servers: few requests, and redirects that are followed only where they may lead."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import obstore.store
import pytest

import zarr_manifest as zm
from tests.conversion.files.converted_files import IGNORED_WARNINGS
from tests.conversion.files.test_files_grib import grib_file
from tests.quick_retries import QUICK
from tests.servers.http_files import FileServer, delay, redirect
from zarr_manifest.conversion import (
    ArrayNode,
    RefusedNode,
    read_dandi,
    read_files,
    read_kerchunk,
    scan,
)
from zarr_manifest.conversion.files import FileSources
from zarr_manifest.errors import LocationNotAllowedError, SourceError
from zarr_manifest.manifest import references_of

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

# As the server would answer.
NORMAL = delay(0)


def hdf5_file() -> bytes:
    body = io.BytesIO()
    with h5py.File(body, "w") as file:
        file.create_dataset("x", data=np.arange(40), chunks=(7,), compression="gzip")
        file["texts"] = ["a", "bc"]
    return body.getvalue()


def netcdf3_file(number: int = 0) -> bytes:
    """One time, and values of it."""
    file = netCDF4.Dataset("f.nc", "w", format="NETCDF3_CLASSIC", memory=1024)
    for name, length, values in (("t", 1, [number]), ("x", 4, range(4))):
        file.createDimension(name, length)
        file.createVariable(name, "f8", (name,))[:] = values
    file.createVariable("v", "i4", ("t", "x"))[:] = [range(4)]
    return bytes(file.close())


def tiff_file() -> bytes:
    body = io.BytesIO()
    pytest.importorskip("tifffile").imwrite(body, np.zeros((32, 32), "u1"), tile=(16, 16))
    return body.getvalue()


def fits_file() -> bytes:
    body = io.BytesIO()
    fits = pytest.importorskip("astropy.io.fits")
    fits.HDUList([fits.PrimaryHDU(np.zeros((4, 5), "i2"))]).writeto(body)
    return body.getvalue()


DMRPP = b"""<Dataset xmlns="http://xml.opendap.org/ns/DAP/4.0#"
    xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#" name="f">
  <Dimension name="x" size="6"/>
  <Int32 name="a"><Dim name="/x"/>
    <dmrpp:chunks byteOrder="LE"><dmrpp:chunk offset="8" nBytes="24"/></dmrpp:chunks>
  </Int32>
</Dataset>"""

# How to make a file of each format, and the number of requests that its conversion takes.
FILES: Mapping[str, tuple[Callable[[], bytes], int]] = {
    "f.h5": (hdf5_file, 2),
    "f.nc": (netcdf3_file, 4),
    "f.tif": (tiff_file, 3),
    "f.fits": (fits_file, 4),
    "f.grib2": (grib_file, 2),
    "f.dmrpp": (lambda: DMRPP, 4),
}


@pytest.fixture
def put(http_server: FileServer, other_host_server: FileServer) -> Callable[[str], str]:
    """Puts a file on two servers, and returns its URL on the first."""

    def at(name: str) -> str:
        body = FILES[name][0]()
        for server in (http_server, other_host_server):
            server.put(f"d/{name}", body)
            server.put("d/f", bytes(100))  # what a DMR++ document describes
        return f"{http_server.url}/d/{name}"

    return at


def refused_after(
    convert: Callable[[], Any], server: FileServer, path: str, target: str
) -> Iterator[LocationNotAllowedError]:
    """Yield the error if the server redirects after 0, 1, 2, … requests that it answers."""
    for answered in itertools.count():
        server.clear()
        server.script(path, *[NORMAL] * answered, redirect(target), sticky=True)
        try:
            convert()
        except LocationNotAllowedError as error:
            yield error
        else:
            # That many are made.
            assert answered == len([each for each in server.requests if each.target[1:] == path])
            return


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_each_request_is_checked(
    name: str, put: Callable[[str], str], http_server: FileServer, other_host_server: FileServer
) -> None:
    url = put(name)
    assert [each for each in read_files(url) if isinstance(each, ArrayNode)]
    assert len(http_server.requests) == FILES[name][1]
    target = f"{other_host_server.url}/d/{name}"
    refused = refused_after(
        lambda: list(read_files(url, allow=[http_server.url])), http_server, f"d/{name}", target
    )
    found = list(refused)
    assert len(found) == FILES[name][1] - (name == "f.dmrpp")  # of which one is for another object
    for error in found:
        assert error.location == url
        assert f"redirects to one below {other_host_server.url}/d/, which" in error.message
        assert f"allow=['{other_host_server.url}/d/']" in error.message
    assert other_host_server.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_redirects_are_followed_where_they_may(
    name: str, put: Callable[[str], str], http_server: FileServer, other_host_server: FileServer
) -> None:
    url = put(name)
    plain = list(read_files(url))
    http_server.script(f"d/{name}", redirect(f"{other_host_server.url}/d/{name}"), sticky=True)
    found = list(read_files(url, allow=[f"{other_host_server.url}/d/"]))
    assert len(other_host_server.requests) == FILES[name][1] - (name == "f.dmrpp")
    for before, after in zip(plain, found, strict=True):
        assert before.path == after.path
        if isinstance(before, ArrayNode) and isinstance(after, ArrayNode):
            assert references_of(after.manifest).paths == references_of(before.manifest).paths


def test_a_redirect_within_the_host_is_checked(http_server: FileServer) -> None:
    http_server.put("other/f.nc", netcdf3_file())
    http_server.script("d/f.nc", redirect(f"{http_server.url}/other/f.nc"), sticky=True)
    url = f"{http_server.url}/d/f.nc"
    with pytest.raises(LocationNotAllowedError, match=r"below .*/other/"):
        list(read_files(url, allow=[f"{http_server.url}/d/"]))
    assert [each.target for each in http_server.requests] == ["/d/f.nc"]
    assert len(list(read_files(url, allow=[f"{http_server.url}/other/"]))) == 4


def test_a_store_for_the_server_is_asked_only_where_it_is(
    http_server: FileServer, other_host_server: FileServer
) -> None:
    other_host_server.put("f.nc", netcdf3_file())
    http_server.script("d/f.nc", redirect(f"{other_host_server.url}/f.nc"), sticky=True)
    store = obstore.store.HTTPStore(f"{http_server.url}/d", client_options={"allow_http": True})
    with pytest.raises(LocationNotAllowedError):
        list(read_files(f"{http_server.url}/d/f.nc", allow={f"{http_server.url}/d/": store}))
    assert other_host_server.requests == []


def test_an_endpoint_that_redirects_to_another_host(
    http_server: FileServer, other_host_server: FileServer, tmp_path: Path
) -> None:
    other_host_server.put("b/f.nc", netcdf3_file())
    elsewhere = redirect(f"{other_host_server.url}/b/f.nc", heads=True)
    http_server.script("b/f.nc", elsewhere, sticky=True)
    access = zm.anonymous(endpoint=http_server.url, region="us-east-1", retry_config=QUICK)
    with pytest.raises(LocationNotAllowedError, match="the server redirects to another one"):
        list(read_files("s3://b/f.nc", allow={"s3://b/": access}))
    assert other_host_server.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("scanned", [False, True])
def test_each_of_several_files_is_checked(
    http_server: FileServer, other_host_server: FileServer, tmp_path: Path, *, scanned: bool
) -> None:
    """Also where coordinates are read, and chunks for their checksums."""
    for number in range(2):
        http_server.put(f"{number}.nc", netcdf3_file(number))
        other_host_server.put(f"{number}.nc", netcdf3_file(number))
    urls = [f"{http_server.url}/{number}.nc" for number in range(2)]
    directories = map(str, itertools.count())

    def convert() -> None:
        scans = tmp_path / next(directories) if scanned else None
        checksum = "crc32c" if scanned else None
        list(read_files(urls, concat_dim="t", checksum=checksum, scans=scans))

    target = f"{other_host_server.url}/1.nc"
    refused = list(refused_after(convert, http_server, "1.nc", target))
    assert {error.location for error in refused} == {urls[1]}
    assert other_host_server.requests == []


def test_a_variable_whose_chunks_are_elsewhere_is_refused(
    http_server: FileServer, other_host_server: FileServer
) -> None:
    http_server.put("f.nc", netcdf3_file())
    elsewhere = redirect(f"{other_host_server.url}/f.nc")
    before = [NORMAL] * FILES["f.nc"][1]
    http_server.script("f.nc", *before, elsewhere, sticky=True)
    found = list(read_files(f"{http_server.url}/f.nc", checksum="crc32c"))
    (refused,) = [node for node in found if isinstance(node, RefusedNode)]
    assert refused.path == "v"
    assert "redirects to one below" in refused.reason
    assert other_host_server.requests == []


def test_a_scan_is_checked(http_server: FileServer, other_host_server: FileServer) -> None:
    for server in (http_server, other_host_server):
        server.put("f.nc", netcdf3_file())
    url, target = f"{http_server.url}/f.nc", f"{other_host_server.url}/f.nc"
    assert list(refused_after(lambda: scan(url), http_server, "f.nc", target))
    assert other_host_server.requests == []
    http_server.script("f.nc", redirect(target), sticky=True)
    assert scan(url, allow=[other_host_server.url]).url == url


@pytest.mark.parametrize("is_whole", [False, True])
def test_documents_of_other_formats_are_checked(
    http_server: FileServer, other_host_server: FileServer, *, is_whole: bool
) -> None:
    document = {"version": 1, "refs": {".zgroup": '{"zarr_format": 2}'}}
    if is_whole:
        document = {"fields": ["size"], "entries": {".zgroup": [18]}}
    other_host_server.put("document.json", json.dumps(document).encode())
    other_host_server.put(".zgroup", b'{"zarr_format": 2}')
    http_server.script(
        "document.json", redirect(f"{other_host_server.url}/document.json"), sticky=True
    )
    url = f"{http_server.url}/document.json"

    def convert(allow: Any) -> list[Any]:
        if is_whole:
            return list(read_dandi(url, url=f"{other_host_server.url}/", allow=allow))
        return list(read_kerchunk(url, allow=allow))

    with pytest.raises(LocationNotAllowedError) as raised:
        convert([http_server.url])
    assert raised.value.location == url
    assert f"allow=['{other_host_server.url}/']" in raised.value.message
    assert other_host_server.requests == []
    assert len(convert([other_host_server.url])) == 1


def test_blocks_of_a_file_are_read_together(http_server: FileServer) -> None:
    """As by HDF5, for which 3 MB of a small array are 3 blocks of a reader."""
    body = bytes(range(256)) * (16 * 1024)
    http_server.put("f", body)
    reader = FileSources().reader(f"{http_server.url}/f")
    assert reader.read(3 * 2**20) == body[: 3 * 2**20]
    assert len(http_server.requests) == 2  # its size, and the blocks


@pytest.mark.parametrize("is_local", [False, True])
def test_names_with_escapes_are_combined(
    http_server: FileServer, tmp_path: Path, *, is_local: bool
) -> None:
    """Parsers take the names of objects from their URLs as they are."""
    for number in range(2):
        http_server.put(f"d/a b%{number}.nc", netcdf3_file(number))
        (tmp_path / f"a b%{number}.nc").write_bytes(netcdf3_file(number))
    directory = tmp_path.as_uri() if is_local else f"{http_server.url}/d"
    urls = [f"{directory}/a%20b%25{number}.nc" for number in range(2)]
    found = {node.path: node for node in read_files(urls, concat_dim="t")}
    assert isinstance(found["t"], ArrayNode)
    assert references_of(found["v"].manifest).paths == tuple(urls)


def test_a_web_server_is_neither_listed_nor_written_to(http_server: FileServer) -> None:
    """Nor through a store that stands in for a bucket."""
    store = obstore.store.HTTPStore(http_server.url, client_options={"allow_http": True})
    sources = FileSources({"s3://b/": store})
    for call in (lambda: list(sources.list("s3://b/d")), lambda: sources.put("s3://b/f", b"")):
        with pytest.raises(SourceError, match="neither be listed nor written"):
            call()
    assert http_server.requests == []
