"""Settings as a broker or a name server answers with them."""

import pytest

from wakelog.client.configuration import read_configuration
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, answer
from wakelog.protocol.names import WAITING_FIELD

BODY = b"# a comment\nbrokerName=b\nnone\nmessageDelayLevel=1s 5s\nfilter=a=b\n"
SETTINGS = {"brokerName": "b", "messageDelayLevel": "1s 5s", "filter": "a=b"}


@pytest.mark.parametrize(
    ("field", "waiting"),
    [
        (None, {}),
        ('{"messageDelayLevel": "2s"}', {"messageDelayLevel": "2s"}),
        ("of another program", {}),
    ],
)
def test_settings_are_read_with_those_that_wait_for_a_restart(
    field: str | None, waiting: dict[str, str]
) -> None:
    fields = {} if field is None else {WAITING_FIELD: field}
    response = answer(RemotingCommand(26), ResponseCode.SUCCESS, body=BODY, ext_fields=fields)
    found = read_configuration(response)
    assert found == (SETTINGS, waiting)
    assert found.in_use == SETTINGS | waiting
