"""Entry of `./dev`, which runs this folder with whichever Python it found.

The folder is then the first entry of the import path; the repository's root takes its place, so
that imports read the same here as in the tests.
"""

import signal
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from scripts.commands import main  # noqa: E402

# An exception, so that whatever this process has started goes before it does.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
sys.exit(main(sys.argv[1:]))
