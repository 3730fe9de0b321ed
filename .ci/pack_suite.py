"""Make the suite's npm package of its wheel, so that one list says what both have.

Usage: python .ci/pack_suite.py dist

npm itself takes most of a minute to pack thousands of small files.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NPM = ROOT / "conformance" / "npm"


def pack(built: Path) -> Path:
    """Write the package into the directory of the wheel, and return its path."""
    (wheel,) = built.glob("chunk_manifest_json_conformance-*.whl")
    files = {path.name: path.read_bytes() for path in sorted(NPM.iterdir()) if path.is_file()}
    files["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    with zipfile.ZipFile(wheel) as unpacked:
        names = [name for name in unpacked.namelist() if name.startswith("conformance/")]
        files |= {name: unpacked.read(name) for name in names}
    stated = json.loads(files["package.json"])
    target = built / f"{stated['name']}-{stated['version']}.tgz"
    with tarfile.open(target, "w:gz", format=tarfile.PAX_FORMAT) as packed:
        for name, content in files.items():
            # npm takes what is below the first directory, whatever its name is.
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            member.mode = 0o755 if name in stated["bin"].values() else 0o644
            packed.addfile(member, io.BytesIO(content))
    return target


if __name__ == "__main__":
    print(f"{pack(Path(sys.argv[1])).name}: made of the wheel")
