"""The person at `wakelog log`: moves are printed at once, or only collected."""

import pytest

from wakelog.audit.operator import Move
from wakelog.cli.log_operator import LogOperator


@pytest.mark.parametrize("is_shown", [True, False])
def test_moves_are_collected_and_printed_if_shown(
    is_shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = LogOperator(is_shown=is_shown)
    with operator.progress("rebuild", 10) as show_done, operator.uninterrupted():
        show_done(10)
        operator.report_moves([Move("/a", "/b")])
    assert operator.moves == [["/a", "/b"]]
    assert capsys.readouterr().out == ("moved  /a -> /b\n" if is_shown else "")
