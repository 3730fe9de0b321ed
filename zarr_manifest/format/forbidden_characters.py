"""The characters that no name, path or version may have, wherever they stand."""

from __future__ import annotations

import re

__all__ = ["FORBIDDEN_CHARACTER"]

#: A control character or a lone surrogate. There is one such pattern, because it takes half a
#: millisecond to compile.
FORBIDDEN_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
