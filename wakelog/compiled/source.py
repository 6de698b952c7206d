"""Where the library and its sources are, and whether the one is of the others.

The library holds the digest of its sources as text, so that reading it tells; nothing is loaded.
"""

import hashlib
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent
LIBRARY_NAME: Final = "functions.abi3.so"
LIBRARY: Final = FOLDER / LIBRARY_NAME


def source_digest(folder: Path = FOLDER) -> str:
    """Return the SHA-256 of all C sources and headers, as text."""
    digest = hashlib.sha256()
    for path in sorted((*folder.glob("*.c"), *folder.glob("*.h"))):
        content = path.read_bytes()
        digest.update(b"%s %d\n" % (path.name.encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()


def is_current(library: Path = LIBRARY, folder: Path = FOLDER) -> bool:
    """Return whether the library is there and was built from the sources as they are."""
    try:
        return source_digest(folder).encode() in library.read_bytes()
    except OSError:
        return False
