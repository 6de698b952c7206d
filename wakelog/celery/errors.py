"""Errors: those of the client, as kombu knows them.

    RecoverableConnectionError    nobody answers, or not now: kombu and Celery connect again
    PreconditionFailed            the call cannot be made as it was given
    AccessRefused                 the account may not do it
    NotFound                      there is no such topic

Each has the text of the client: the cause, then the remedy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from amqp.exceptions import (
    AccessRefused,
    AMQPError,
    NotFound,
    PreconditionFailed,
    RecoverableConnectionError,
)

from wakelog.client import ClientError, InvalidArgument
from wakelog.protocol.codes import ResponseCode

_BY_CODE: Final[dict[int, type[AMQPError]]] = {
    ResponseCode.NO_PERMISSION: AccessRefused,
    ResponseCode.TOPIC_NOT_EXIST: NotFound,
    ResponseCode.MESSAGE_ILLEGAL: PreconditionFailed,
}


@contextmanager
def as_kombu_errors() -> Iterator[None]:
    """Raise what a client raises in this block as an error of kombu."""
    try:
        yield
    except InvalidArgument as error:
        raise PreconditionFailed(str(error)) from error
    except ClientError as error:
        kind = AccessRefused if error.refuses_account else RecoverableConnectionError
        raise _BY_CODE.get(error.code or 0, kind)(str(error)) from error
