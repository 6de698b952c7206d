"""The operator that shows nothing, and the error for a mistake of the real one."""

from wakelog.audit.operator import SILENT, AuditRefused, Move


def test_a_silent_operator_lets_everything_happen() -> None:
    with SILENT.progress("verify", 100) as show_done, SILENT.uninterrupted():
        show_done(50)
    SILENT.report_moves([Move("a", "b")])


def test_a_refusal_is_a_cause_and_a_remedy() -> None:
    refused = AuditRefused("x is not empty", "give a new folder")
    assert str(refused) == "x is not empty; give a new folder"
