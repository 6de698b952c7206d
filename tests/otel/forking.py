"""A fork while another thread holds a lock."""

import os
import threading
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

WAIT_SECONDS = 20.0
DONE, FAILED, WAITED = 0, 1, 2


def forked_while_held(lock: AbstractContextManager[Any], work: Callable[[], object]) -> int:
    """Return what became of some work in a forked process: DONE, FAILED or WAITED."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads and forks
        child = os.fork()
    if not child:
        threading.Timer(WAIT_SECONDS, os._exit, (WAITED,)).start()
        code = FAILED
        try:
            work()
            code = DONE
        finally:
            os._exit(code)
    over.set()
    thread.join()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
