"""For every test in the repository: servers, hypothesis profiles, and no cloud credentials."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

pytest_plugins = ["tests.servers.fixtures"]

_CLOUD_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")

# Examples of each property; `tests.properties` has some tried more often, or less.
for profile, examples in {"quick": 5, "default": 20, "thorough": 50}.items():
    settings.register_profile(
        profile,
        max_examples=examples,
        # How long an example takes depends on what else the machine does.
        deadline=None,
        # What is checked before a commit, or before one is taken, says the same each time.
        derandomize=profile == "quick" or "CI" in os.environ,
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Keep the developer's own credentials out of every test, and of what it starts."""
    for name in list(os.environ):
        if name.startswith(_CLOUD_PREFIXES):
            del os.environ[name]
