"""Rewrites the asserts of a part of the test modules ahead of collection.

Pytest rewrites a test module when it first imports it, and keeps the result in `__pycache__`. In a
fresh clone that takes longer than the rest of collection. Processes that collect at the same time
would all rewrite each module. Here each takes its part first, and finds the others' parts made.
"""

import sys
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def rewrite_part(config: pytest.Config, folder: Path, part: int, parts: int) -> int:
    """Rewrite every `parts`-th module below a folder, from number `part` on; count them.

    What cannot be rewritten is left to collection, which reports it.
    """
    if sys.dont_write_bytecode or rewrite.assertstate_key not in config.stash:
        return 0
    state = config.stash[rewrite.assertstate_key]
    count = 0
    for source in _modules(folder)[part::parts]:
        kept = rewrite.get_cache_dir(source) / (source.stem + rewrite.PYC_TAIL)
        with suppress(OSError, SyntaxError, ValueError, Warning):
            if kept.exists() and kept.stat().st_mtime_ns > source.stat().st_mtime_ns:
                continue
            kept.parent.mkdir(parents=True, exist_ok=True)
            source_hash, code = rewrite._rewrite_test(source, config)
            count += rewrite._write_pyc(state, code, source_hash, kept)
    return count


def _modules(folder: Path) -> list[Path]:
    """Return the modules whose asserts pytest rewrites, in the same order in every process."""
    return sorted(path for name in ("test_*.py", "conftest.py") for path in folder.rglob(name))
