"""Writing without being waited for."""

import io
import threading

from wakelog.cli import printer
from wakelog.cli.printer import Printer


def test_all_output_is_written_in_order_before_close_returns() -> None:
    written: list[int] = []
    one = Printer()
    for number in range(100):
        one.put(lambda number=number: written.append(number))  # type: ignore[misc]
    one.close()
    assert written == list(range(100))
    assert one.dropped_count == 0


def test_a_reader_that_is_gone_is_no_error() -> None:
    def refuse() -> None:
        raise BrokenPipeError

    written: list[str] = []
    one = Printer()
    one.put(refuse)
    one.put(lambda: written.append("after"))
    one.close()
    assert written == ["after"]


def test_a_reader_that_pauses_blocks_nothing() -> None:
    pause = threading.Event()
    one = Printer()
    one.put(lambda: print(pause.wait(), file=io.StringIO()))
    for _ in range(printer.WAITING_MAX + 10):
        one.put(lambda: None)
    assert one.dropped_count >= 9
    pause.set()
    one.close()
