"""How Ray is imported: without what no message of ours needs.

Ray prepares pydantic's types for being pickled, in every process and before its first call, if it
finds pydantic: 0.2 s of CPU and 10 MB. A plug-in may still import pydantic itself.

Source: ray/_common/pydantic_compat.py (2.60).
"""

from __future__ import annotations

import importlib
import sys


def import_ray() -> None:
    """Import Ray and have it believe that there is no pydantic, unless that is imported already."""
    is_hidden = "pydantic" not in sys.modules
    if is_hidden:
        sys.modules["pydantic"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("ray._common.pydantic_compat")
    finally:
        if is_hidden:
            del sys.modules["pydantic"]
