"""The installed package in Chromium: from an import map, and bundled."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from conformance.adapters.javascript.browser import Visit, look
from conformance.adapters.javascript.hierarchies import COUNTS, SHARDED, SST, write_hierarchy
from conformance.adapters.javascript.pages import EXAMPLES, Pages
from conformance.adapters.javascript.programs import ESBUILD, run
from conformance.runner.exchanges import Rules
from conformance.runner.http_server import LoopbackServer, file_server

SCRIPT = re.compile('<script type="module">(.*)</script>', re.DOTALL)
PACKAGES_SCRIPT = '<script src="packages.js"></script>'
PRINTED = '(page) => JSON.parse(page.querySelector("output").textContent)'


def test_pages_read_a_hierarchy(tmp_path: Path, installed: Path, chromium: str) -> None:
    archive = LoopbackServer()
    write_hierarchy(tmp_path / "data", tmp_path / "archive", archive.origin)
    moved = {"path": "/moved.bin", "status": 302, "location": "/counts.bin"}
    archive.answer = file_server(tmp_path / "archive", Rules([moved]))
    bundled = bundle(installed, tmp_path / "bundled")
    allowed = [f"{archive.origin}/"]
    cases: list[tuple[str, list[str], Any]] = [
        ("sst", [], SST),
        ("native", [], np.array([1, 2, 3], "i2")),
        ("counts", allowed, COUNTS),
        ("sharded", allowed, SHARDED),
        ("corrupt", [], "checksum_mismatch"),
        ("counts", [], "location_not_allowed"),
        ("changed", allowed, "source_changed"),
        ("redirected", allowed, "location_not_allowed"),
    ]
    pages = Pages(
        {"data": tmp_path / "data", "bundled": bundled, "node_modules": installed / "node_modules"}
    )
    visits = [
        Visit(f"/{page}?{urlencode(query, doseq=True)}")
        for page in ("print.html", "bundled/print.html")
        for array, allow, _ in cases
        for query in [{"hierarchy": "/data/", "array": array, "allow": allow}]
    ]
    archive.start()
    try:
        seen = look(chromium, pages.respond, visits, PRINTED, tmp_path / "profile")
    finally:
        archive.stop()
    for visit, printed, (_, _, expected) in zip(visits, seen, [*cases, *cases], strict=True):
        if isinstance(expected, str):
            assert printed.get("code") == expected, (visit, printed)
        else:
            assert printed.get("shape") == list(expected.shape), (visit, printed)
            assert printed["dtype"] == expected.dtype.name
            values = np.array(printed["values"]).astype(expected.dtype)
            assert values.tolist() == expected.ravel().tolist()


def bundle(installed: Path, directory: Path) -> Path:
    """Bundle the script of the example page as its author would: without any configuration."""
    before, script, after = SCRIPT.split((EXAMPLES / "print.html").read_text())
    (installed / "page.js").write_text(script)
    directory.mkdir()
    options = ("--bundle", "--format=esm", f"--outfile={directory / 'page.js'}")
    done = run(ESBUILD, "page.js", *options, directory=installed)
    assert "WARNING" not in done.stderr
    page = f'{before}<script type="module" src="page.js"></script>{after}'
    assert PACKAGES_SCRIPT in page
    (directory / "print.html").write_text(page.replace(PACKAGES_SCRIPT, ""))
    return directory
