"""Entry of `./dev`, which runs this folder with whichever Python it found.

The folder is then the first entry of the import path; the repository's root takes its place, so
that imports read the same here as in the tests.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from scripts.commands import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
