"""Errors of the client, as kombu and Celery tell them apart."""

import pytest
from amqp.exceptions import (
    AccessRefused,
    NotFound,
    PreconditionFailed,
    RecoverableConnectionError,
)

from wakelog.celery.errors import as_kombu_errors
from wakelog.client import ClientError, InvalidArgument, NotAcknowledged
from wakelog.client.errors import ACCOUNT_REMEDY
from wakelog.protocol.codes import ResponseCode

ACL = ResponseCode.SYSTEM_ERROR
"""By which access control refuses."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClientError("no name server", "Start one"), RecoverableConnectionError),
        (NotAcknowledged("no broker", "Wait"), RecoverableConnectionError),
        (ClientError("full", "Wait", code=ResponseCode.SYSTEM_BUSY), RecoverableConnectionError),
        (InvalidArgument("too large", "Send less"), PreconditionFailed),
        (ClientError("no", "Ask", code=ACL, refuses_account=True), AccessRefused),
        (ClientError("no", ACCOUNT_REMEDY, code=ACL), RecoverableConnectionError),
        (ClientError("no", "Ask", code=ResponseCode.NO_PERMISSION), AccessRefused),
        (ClientError("gone", "Make it", code=ResponseCode.TOPIC_NOT_EXIST), NotFound),
    ],
)
def test_an_error_says_whether_to_connect_again(error: ClientError, kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised, as_kombu_errors():
        raise error
    assert str(error) in str(raised.value)
    assert raised.value.__cause__ is error


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(LookupError), as_kombu_errors():
        raise LookupError
