"""What happens to a deferred answer that nobody takes."""

import pytest

from tests.network.fakes import FakeClock
from tests.network.test_connection import FakeOwner
from wakelog.network.connection import Connection
from wakelog.network.handler import refuse_deferred
from wakelog.network.limits import ServerLimits
from wakelog.protocol.command import RemotingCommand


def test_a_deferred_answer_without_a_taker_is_an_error() -> None:
    channel = Connection(FakeOwner(), ServerLimits(), refused_codes=(), clock_seconds=FakeClock())
    with pytest.raises(TypeError, match="code 11: nobody takes the deferred answer 'later'"):
        refuse_deferred("later", RemotingCommand(11), channel, lambda response: None)
