"""How tests retry against their own servers, in obstore's terms: without waiting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

__all__ = ["NO_RETRIES", "QUICK"]

QUICK: Any = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=5),
    "backoff": {
        "init_backoff": timedelta(milliseconds=1),
        "max_backoff": timedelta(milliseconds=5),
        "base": 2,
    },
}

NO_RETRIES: Any = {**QUICK, "max_retries": 0}
