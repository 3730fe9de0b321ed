"""For every test in the repository: servers, hypothesis profiles, and no cloud credentials."""

from __future__ import annotations

import gc
import os
import shutil
import ssl
import tempfile
from collections.abc import Generator
from multiprocessing.util import Finalize
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers.fixtures"]

_CLOUD_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")

_MEMORY = Path("/dev/shm")
_SPACE = 2 << 30

# Examples of each property; `tests.properties` has some tried more often, or less.
for profile, examples in {"quick": 5, "default": 12, "thorough": 50}.items():
    settings.register_profile(
        profile,
        max_examples=examples,
        # How long an example takes depends on what else the machine does.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        # What is checked before a commit, or before one is taken, says the same each time.
        derandomize=profile == "quick" or "CI" in os.environ,
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Keep the developer's own credentials out of every test, and of what it starts."""
    gc.disable()  # until all tests are collected: there is next to nothing to free
    for name in list(os.environ):
        if name.startswith(_CLOUD_PREFIXES):
            del os.environ[name]
    _read_certificates_from_one_file()
    # Workers use the directory of the process that has started them.
    if not hasattr(config, "workerinput") and "TMPDIR" not in os.environ:
        _keep_files_in_memory()


def _read_certificates_from_one_file() -> None:
    """Let each client of obstore read one file, instead of a directory of hundreds, for 5 ms."""
    if bundle := ssl.get_default_verify_paths().cafile:
        os.environ["SSL_CERT_FILE"] = bundle
        os.environ.pop("SSL_CERT_DIR", None)


def _keep_files_in_memory() -> None:
    """Let temporary files be in memory, where that is possible, until the tests have ended.

    Tests make and remove so many that they take half as long again on a disk. With `TMPDIR`, they
    are there instead, and those of failed tests are kept.
    """
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _SPACE:
        directory = tempfile.mkdtemp(prefix="pytest-", dir=_MEMORY)
        Path(directory).chmod(0o755)  # some tests look at it as another user
        # Behind what multiprocessing itself removes there, as it ends, with a priority of -100.
        Finalize(None, shutil.rmtree, (directory, True), exitpriority=-101)
        os.environ["TMPDIR"] = tempfile.tempdir = directory


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make nothing of slow functions where they are left out: most parameters are theirs."""
    if "not slow" not in collector.config.getoption("markexpr").split(" and "):
        return None
    marks = [*collector.iter_markers(), *getattr(obj, "pytestmark", [])]
    return [] if any(mark.name == "slow" for mark in marks) else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Search no tests for examples that have none: they have thousands of functions."""
    found = yield
    if not file_path.match("test_*.py") or ">>> " in file_path.read_text(encoding="utf-8"):
        return found
    return [each for each in found if not isinstance(each, DoctestModule)]


def pytest_collection_finish() -> None:
    """Leave modules and tests, which stay to the end, out of every later garbage collection."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 10, 10)
