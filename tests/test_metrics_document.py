"""The contract of the metrics: what it promises is declared, and nothing leaves it unseen."""

from scripts.generate import ROOT
from scripts.metrics_document import CONTRACT, contract_document, promise
from wakelog.telemetry.metrics import NAME_SETS


def promised(text: str) -> set[str]:
    return {line.partition("  ")[0] for line in text.splitlines()}


def test_every_family_keeps_its_type_and_labels() -> None:
    """One that has to change is changed in the contract by hand: docs/metrics.md has the policy."""
    text = (ROOT / CONTRACT).read_text(encoding="utf-8")
    declared = {promise(name_set, spec) for name_set, specs in NAME_SETS.items() for spec in specs}
    assert promised(text) == declared
    assert len(text.splitlines()) == len(declared)


def test_what_is_promised_stays_when_it_is_drawn_again() -> None:
    gone = "native gauge rocketmq_gone{broker}  Gone."
    renewed = "native gauge rocketmq_disk_full{broker}  An old text."
    drawn = contract_document(f"{gone}\n{renewed}\n")
    assert gone in drawn.splitlines()
    assert "An old text" not in drawn
    assert promised(drawn) > promised(contract_document("")) > set()
