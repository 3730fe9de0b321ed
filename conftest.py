"""For every test in the repository: servers, hypothesis profiles, and no cloud credentials."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

pytest_plugins = ["tests.servers.fixtures"]

_CLOUD_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")

# Without a deadline: how long an example takes depends on what else the machine does.
settings.register_profile("default", deadline=None, max_examples=25)
settings.register_profile("quick", deadline=None, max_examples=5, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Keep the developer's own credentials out of every test, and of what it starts."""
    for name in list(os.environ):
        if name.startswith(_CLOUD_PREFIXES):
            del os.environ[name]
