"""The list of findings is bounded, the counts are not."""

from wakelog.audit.findings import FINDINGS_KEPT_MAX, Finding, Findings, Severity


def test_counts_go_on_where_the_list_ends() -> None:
    findings = Findings()
    findings.add(Finding(Severity.NOTE, "file", "commitlog/x", "unknown name"))
    assert findings.is_sound
    for i in range(FINDINGS_KEPT_MAX):
        findings.add(Finding(Severity.DAMAGE, "record", "commitlog", "bad", i))
    assert not findings.is_sound
    assert (findings.notes_count, findings.damages_count) == (1, FINDINGS_KEPT_MAX)
    assert len(findings.kept) == FINDINGS_KEPT_MAX
