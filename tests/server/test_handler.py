"""What happens to a deferred answer that nobody takes."""

import pytest

from tests.server.fakes import FakeClock
from tests.server.test_connection import FakeOwner
from wakelog.protocol.command import RemotingCommand
from wakelog.server.connection import Connection
from wakelog.server.handler import refuse_deferred
from wakelog.server.limits import ServerLimits


def test_a_deferred_answer_without_a_taker_is_an_error() -> None:
    channel = Connection(FakeOwner(), ServerLimits(), refused_codes=(), clock_seconds=FakeClock())
    with pytest.raises(TypeError, match="code 11: nobody takes the deferred answer 'later'"):
        refuse_deferred("later", RemotingCommand(11), channel, lambda response: None)
