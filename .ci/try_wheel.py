"""Try a wheel as its users will: in an empty environment, outside the checkout.

Usage: python .ci/try_wheel.py dist/NAME.whl

Installs it without extras and runs the README's blocks of Python, up to the first one that needs an
extra; then with the extra `cli`, and calls the command.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

README = Path(__file__).resolve().parent.parent / "README.md"

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMISED = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)
_NEEDS_AN_EXTRA = "import xarray"


def program() -> str:
    """Return the README's blocks that need no extra, as one program."""
    before, _, _ = README.read_text(encoding="utf-8").partition(_NEEDS_AN_EXTRA)
    return "\n".join(_BLOCK.findall(before))


def try_wheel(wheel: Path, directory: Path) -> None:
    """Install a wheel into a directory, and use it there.

    Raises
    ------
    SystemExit
        If the README promises something else.
    subprocess.CalledProcessError
        If a command fails.
    """
    environment = directory / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"

    def output(*command: str | Path) -> str:
        # Isolated from the checkout: no PYTHONPATH, and another working directory.
        return subprocess.run(
            command, cwd=directory, check=True, stdout=subprocess.PIPE, text=True, env={}
        ).stdout

    def install(extras: str) -> None:
        requirement = f"zarr-manifest{extras} @ {wheel.as_uri()}"
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", requirement],
            check=True,
        )

    install("")
    printed = output(python, "-c", program()).splitlines()
    if printed != (promised := _PROMISED.findall(program())):
        raise SystemExit(f"the README promises {promised}, but its lines print {printed}")
    print(f"{wheel.name}: the README's first {len(program().splitlines())} lines run")

    install("[cli]")
    command = environment / "bin" / "zarr-manifest"
    output(command, "--help")
    print(f"{wheel.name}: {output(command, '--version').strip()}")
    output(command, "info", "data.zarr")


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        try_wheel(Path(sys.argv[1]).resolve(strict=True), Path(place))
