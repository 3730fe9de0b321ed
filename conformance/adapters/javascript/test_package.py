"""The package as npm packs it: what is in it, and that it works where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from conformance.adapters.javascript.hierarchies import SST, write_array, write_json
from conformance.adapters.javascript.pages import READER, serving
from conformance.adapters.javascript.programs import ESBUILD, TSC, run
from conformance.runner.exchanges import Rules
from conformance.runner.http_server import file_server

ROOT = READER.parents[2]
README = (READER / "README.md").read_text(encoding="utf-8")
BROWSER_PAGE = (ROOT / "docs" / "browser.md").read_text(encoding="utf-8")
EXAMPLES = {
    f"{name}-{i}": code
    for name, page in (("README", README), ("browser", BROWSER_PAGE))
    for i, code in enumerate(re.findall(r"^```js\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
}
SIZE = re.compile(r"^(?:- )?(\d+) kB (packed|in a page, .*)$", re.MULTILINE)
CONSUMER = """
import * as zarr from "zarrita";
import { ManifestError, withChunkManifests, type Options } from "chunk-manifest-json";
import { directory, readFile } from "chunk-manifest-json/node";
import { validate, type Problem } from "chunk-manifest-json/validate";

const allow = ["https://example.org/", { prefix: "file:///data/" }];
const options: Options = { allow, files: readFile, missing: "error" };
const store = withChunkManifests(directory("data.zarr"), options);
const array = await zarr.open(zarr.root(store).resolve("sst"), { kind: "array" });
const values = await zarr.get(array, [zarr.slice(0, 2), null]);
const shape: number[] = values.shape;
const chunk: Uint8Array | undefined = await store.getChunk("sst", [0, 0], { start: 0, end: 2 });
const problems: Problem[] = await validate(directory("data.zarr"), [""]);
const code: string = new ManifestError("short_read", "").code;
// @ts-expect-error: there is no such policy
withChunkManifests("https://example.org/", { verify: "sometimes" });
// @ts-expect-error: a store is no number
withChunkManifests(7);
export { shape, chunk, problems, code };
"""


def test_the_tarball_has_the_sources_their_types_and_nothing_else(tarball: Path) -> None:
    with tarfile.open(tarball) as packed:
        names = {name.removeprefix("package/") for name in packed.getnames()}
    sources = {path.stem for path in (READER / "src").glob("*.js")}
    assert names == {"LICENSE", "README.md", "package.json"} | {
        name for stem in sources for name in (f"src/{stem}.js", f"types/{stem}.d.ts")
    }


def test_the_package_could_be_published(npm: str, tarball: Path, tmp_path: Path) -> None:
    assert (READER / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    shutil.unpack_archive(tarball, tmp_path, filter="data")
    document = tmp_path / "package" / "package.json"
    before = document.read_text()
    # What npm would correct while it publishes.
    run(npm, "pkg", "fix", directory=document.parent)
    assert json.loads(document.read_text()) == json.loads(before)
    assert json.loads(before).get("private") is None


def test_the_readme_states_the_sizes_that_the_command_prints(npm: str) -> None:
    printed = SIZE.findall(run(npm, "run", "--silent", "size").stdout)
    stated = SIZE.findall(README)
    assert [what for _, what in stated] == [what for _, what in printed]
    for (said, what), (is_, _) in zip(stated, printed, strict=True):
        assert abs(int(said) - int(is_)) <= 0.1 * int(is_), (
            f"README.md says {said}, not {is_}: {what}"
        )


def test_programs_in_typescript_compile(installed: Path) -> None:
    (installed / "consumer.ts").write_text(CONSUMER)
    strict = ("--noEmit", "--strict", "--module", "preserve", "--target", "es2023")
    types = ("--types", "node", "--typeRoots", str(READER / "node_modules" / "@types"))
    run(TSC, "consumer.ts", *strict, *types, directory=installed)


def test_bundlers_refuse_for_browsers_what_only_node_has(installed: Path) -> None:
    (installed / "node-only.js").write_text('export * from "chunk-manifest-json/node";')
    options = ("--bundle", "--format=esm", "--outfile=node-only.bundle.js")
    done = run(ESBUILD, "node-only.js", *options, directory=installed, check=False)
    assert done.returncode != 0
    assert 'Could not resolve "chunk-manifest-json/node"' in done.stderr
    run(ESBUILD, "node-only.js", *options, "--platform=node", directory=installed)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str, node: str, installed: Path) -> None:
    code = EXAMPLES[name]
    files = file_server(installed, Rules([]))
    with serving(files) as site, serving(files) as archive:
        local = "/node" in code
        sources = (installed / "2024").as_uri() if local else f"{archive}/2024"
        write_example(installed, sources)
        for there, here in {
            "https://example.org/": f"{site}/",
            "https://archive.example.org/2024/": f"{sources}/",
            "file:///data/": f"{sources}/",
        }.items():
            code = code.replace(there, here)
        script = installed / f"{name}.js"
        script.write_text(code)
        printed = " ".join(run(node, str(script), directory=installed).stdout.split())
    if "validate" in code:
        assert printed == "[]"
    elif local:
        assert printed.startswith("[ '0.0', '1.0', '2.0', '3.0' ] Uint8Array(8) [")
    else:
        assert "Float32Array(4) [ 0, 0.5, 1, 1.5 ]" in printed


def test_the_installation_that_the_documentation_shows_names_what_npm_packs(tarball: Path) -> None:
    assert f"npm install ./{tarball.name} zarrita\n" in BROWSER_PAGE
    assert "npm pack ./conformance/adapters/javascript\n" in BROWSER_PAGE


def write_example(directory: Path, sources: str) -> None:
    """Write what the examples read: a hierarchy, and a file elsewhere."""
    (directory / "2024").mkdir(exist_ok=True)
    (directory / "2024" / "sst.bin").write_bytes(SST.tobytes())
    root = directory / "data.zarr"
    write_json(root / "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})
    write_array(root / "sst", SST, (1, 2), {"manifest": "./manifest.json"})
    size = SST[0].nbytes
    entries = {
        f"{i}.0": {"path": f"{sources}/sst.bin", "offset": i * size, "length": size}
        for i in range(len(SST))
    }
    write_json(root / "sst" / "manifest.json", entries)
