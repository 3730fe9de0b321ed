"""Imported last by the server of forks: their garbage collections leave alone what it imported.

They would copy its memory otherwise, page by page.
"""

from __future__ import annotations

import gc

gc.collect()
gc.freeze()
