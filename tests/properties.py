"""How often a property is tried, in proportion to the hypothesis profile."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["THOROUGH", "examples"]

# Whether each rule is to be met in every way, as it is every week.
THOROUGH = settings.get_current_profile_name() == "thorough"

_FEWEST = 3


def examples(times: float) -> settings:
    """Try a property so many times as often as others.

    More often where an example is cheap and what may go wrong is rare, less often where an
    example takes long.
    """
    profile = settings.default
    assert profile is not None
    return settings(max_examples=max(_FEWEST, round(times * profile.max_examples)))
