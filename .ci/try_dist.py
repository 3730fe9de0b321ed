"""Try what was built as its users will: in empty environments, outside the checkout.

Usage: python .ci/try_dist.py dist

The sdist has to hold what its pages link to. The wheel is installed without extras into an
environment of each Python that is found, where the blocks of docs/authoring.md run; then with the
extra `cli`, for the command. With the extra `all`, in one environment, the first commands of the
README run, over files on disk.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

#: What the package supports; those that are not installed are said, and left out.
VERSIONS = ("3.12", "3.13", "3.14")

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMISED = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_CREATE = re.compile(r"^\$ (zarr-manifest create .*)$", re.MULTILINE)
_BUCKET = re.compile(r"s3://[\w./-]+/")

_FILES = """\
import h5py, pathlib
pathlib.Path("archive").mkdir()
for day in range(2):
    with h5py.File(f"archive/{day}.nc", "w") as file:
        axes = {"time": [float(day)], "lat": [10.0, 20.0], "lon": [1.0, 2.0, 3.0]}
        sst = file.create_dataset("sst", (1, 2, 3), "f4", chunks=(1, 2, 3))
        sst[...] = day + 1
        for axis, (name, values) in enumerate(axes.items()):
            file[name] = values
            file[name].make_scale(name)
            sst.dims[axis].attach_scale(file[name])
        file["time"].attrs["units"] = "days since 2024-01-01"
"""


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page that have a language."""
    return [Block(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def interpreters() -> list[str]:
    """Return the Python that runs this, and others of the supported versions."""
    own = "{}.{}".format(*sys.version_info)
    found = [sys.executable]
    for version in VERSIONS:
        if version == own:
            continue
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        made = [str(path / "bin" / "python") for path in sorted(pyenv.glob(f"{version}.*"))]
        named = shutil.which(f"python{version}")
        if works := next((python for python in (*made, named) if python and is_python(python)), ""):
            found.append(works)
        else:
            print(f"Python {version} was not found, and not tried")
    return found


def is_python(python: str) -> bool:
    """Whether an interpreter starts, and can make environments; those of pyenv may do neither."""
    return (
        subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True).returncode
        == 0
    )


class Environment:
    """An empty environment in a directory, and commands that see nothing of the checkout."""

    def __init__(self, python: str, directory: Path, name: str, wheel: Path) -> None:
        self.directory = directory
        self._distribution, self._wheel = name, wheel
        self._place = directory / "environment"
        # One pip installs into all of them: to give each its own would take longer than the rest.
        subprocess.run([python, "-m", "venv", "--without-pip", self._place], check=True)
        self._programs = self._place / ("Scripts" if os.name == "nt" else "bin")
        version = self.output("python", "-c", "import platform; print(platform.python_version())")
        self.name = f"{wheel.name}, Python {version.strip()}"

    def install(self, extras: str) -> None:
        """Install the wheel, with extras such as ``[cli]``."""
        requirement = f"{self._distribution}{extras} @ {self._wheel.as_uri()}"
        pip = [sys.executable, "-m", "pip", "--python", self._place, "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-q", "--no-compile", requirement], check=True)

    def program(self, name: str) -> Path:
        """Return the path of a program of the environment."""
        return self._programs / name

    def output(self, program: str, *arguments: str) -> str:
        """Run a program of the environment, and return what it prints."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [self.program(program), *arguments],
            cwd=self.directory,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env=kept,
        ).stdout

    def run_page(self, page: Path) -> None:
        """Run a page's blocks of Python as one program, and compare what they print."""
        program = "\n".join(block.text for block in blocks(page) if block.language == "python")
        printed = self.output("python", "-c", program).splitlines()
        if printed != (promised := _PROMISED.findall(program)):
            raise SystemExit(f"{page.name} promises {promised}, but its lines print {printed}")
        print(f"{self.name}: {len(program.splitlines())} lines of {page.name} run")


def try_plain(environment: Environment, root: Path) -> None:
    """Use the wheel without extras, and its command."""
    environment.install("")
    environment.run_page(root / "docs" / "authoring.md")
    environment.install("[cli]")
    environment.output("zarr-manifest", "--help")
    print(f"{environment.name}: {environment.output('zarr-manifest', '--version').strip()}")
    environment.output("zarr-manifest", "info", "data.zarr")


def try_everything(environment: Environment, root: Path) -> None:
    """Use the first commands of the README, with a directory in place of its bucket."""
    environment.install("[all]")
    environment.output("python", "-c", _FILES)
    readme = root / "README.md"
    create = _CREATE.search(blocks(readme)[0].text)
    opened = blocks(readme)[1].text
    assert create is not None
    files = sorted((environment.directory / "archive").glob("*.nc"))
    words = [word for word in shlex.split(create[1]) if not _BUCKET.match(word)]
    words[2:2] = [file.relative_to(environment.directory).as_posix() for file in files]
    environment.output(*words)
    archive = (environment.directory / "archive").as_uri() + "/"
    environment.output("python", "-W", "error", "-c", _BUCKET.sub(archive, opened))
    print(f"{environment.name}: the first commands of the README run")


def try_sdist(sdist: Path, directory: Path) -> None:
    """Unpack the sdist: what its pages link to is there, and tests, documents and cases are."""
    with tarfile.open(sdist) as packed:
        packed.extractall(directory, filter="data")
    (root,) = directory.iterdir()
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("specs/**/*.md")]
    for page in pages:
        for target in _LINK.findall(page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                raise SystemExit(f"{sdist.name}: {page.relative_to(root)} links to {target}")
    for needed in ("conftest.py", "tests/test_public_names.py", "conformance/index.json"):
        if not (root / needed).is_file():
            raise SystemExit(f"{sdist.name} lacks {needed}")
    print(f"{sdist.name}: {len(pages)} pages link to what is there")


def main(built: Path) -> None:
    """Try the wheel and the sdist in a directory."""
    (wheel,) = built.glob("zarr_manifest-*.whl")
    (sdist,) = built.glob("*.tar.gz")
    root = Path(__file__).resolve().parent.parent
    with TemporaryDirectory() as place:
        try_sdist(sdist, Path(place))
    for number, python in enumerate(interpreters()):
        # Files on Windows are in use for a while after a program has ended.
        with TemporaryDirectory(ignore_cleanup_errors=True) as place:
            environment = Environment(python, Path(place).resolve(), "zarr-manifest", wheel)
            try_plain(environment, root)
            if number == 0:
                try_everything(environment, root)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(strict=True))
