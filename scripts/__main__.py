"""Entry of `./dev`, which runs this folder with the Python that it found.

That puts this folder first in the import path. The root of the repository replaces it there, so
that imports are the same here as in the tests.
"""

import signal
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from scripts.commands import main  # noqa: E402

# An exception, so that whatever this process has started goes before it does.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
# A reader that has enough, such as `head`, ends this in silence.
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
sys.exit(main(sys.argv[1:]))
