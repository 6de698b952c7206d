"""What tests of services share: no test writes the logs of a broker."""

import pytest

from wakelog.actors.services import service


@pytest.fixture(autouse=True)
def no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no session that has a process of its own open log files."""
    monkeypatch.setattr(service, "open_logs", lambda *_: None)
