"""The errors of the client.

ClientError           a name server or a broker did not answer, or refused
+-- InvalidArgument   a call cannot be made as it was given; nothing was sent
+-- NotAcknowledged   messages were not stored, or the client cannot know
+-- NoReply           a request was stored, and no consumer replied in time
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

from wakelog.network.background import OnFailed
from wakelog.network.errors import (
    CallTimeout,
    ClientClosed,
    RemotingError,
    SendFailed,
    TlsFailed,
    TlsRefused,
    TooManyCalls,
)
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand

CHECK_LOG: Final = "The log of that server may say more"
CHECK_RUNS: Final = "Check that it runs, and that its address is reachable from here"
ACCOUNT_REMEDY: Final = (
    "Check the access key and the secret key, and the permissions of the account (plain_acl.yml)"
)

NAME_PEM: Final = "Name readable PEM files in tls=Tls(...)"
GIVE_SIGNER: Final = "give its signer by tls=Tls(trust_path=...)"
CHECK_NO_HOST: Final = "give tls=Tls(checks_host=False)"
GIVE_TLS: Final = "give tls=True, or tls=Tls(cert_path=...) where it wants a certificate"
OTHER_GROUP: Final = "name another group"
NO_QUEUE: Final = "Name no queue"
ARGUMENT_REMEDIES: Final = (NAME_PEM, GIVE_SIGNER, CHECK_NO_HOST, GIVE_TLS, OTHER_GROUP, NO_QUEUE)
"""What remedies say of arguments. A command and Spark give them otherwise, and have their words."""

OWN_REMEDY: Final = "This is an error of wakelog's own: report it, with the log wakelog.client"

logger = logging.getLogger("wakelog.client")

_CODE_NAMES: Final = {code.value: code.name for code in ResponseCode}


class ClientError(Exception):
    """A call failed. The text is the cause, then the remedy, as two sentences.

    broker, code, remark: of the broker that refused; empty and None without a response.
    passes: a broker that is being replaced, or starts, explains it.
    refuses_account: access control refused it, which has no code of its own.
    """

    def __init__(
        self,
        cause: str,
        remedy: str,
        *,
        broker: str = "",
        code: int | None = None,
        remark: str = "",
        passes: bool = False,
        refuses_account: bool = False,
    ) -> None:
        """Keep the parts."""
        self.cause = cause
        self.remedy = remedy
        self.broker = broker
        self.code = code
        self.remark = remark
        self.passes = passes
        self.refuses_account = refuses_account
        super().__init__(cause, remedy)  # what a copy in another process is made from

    def __str__(self) -> str:
        """Return cause and remedy, as two sentences."""
        return f"{self.cause}. {self.remedy}"


def in_words(remedy: str, words: Mapping[str, str]) -> str:
    """Return a remedy with other words in place of those of ARGUMENT_REMEDIES."""
    for ours, theirs in words.items():
        remedy = remedy.replace(ours, theirs)
    return remedy


class NotAcknowledged(ClientError):
    """A broker did not acknowledge messages: they may be stored, or not.

    receipts: of `send_many`, in the order of the messages; None for each that may not be stored.
    """

    def __init__(self, *parts: Any, receipts: Sequence[object] = (), **more: Any) -> None:
        """Take what ClientError takes, and the receipts."""
        super().__init__(*parts, **more)
        self.receipts = receipts


class InvalidArgument(ClientError, ValueError):
    """A call cannot be made as it was given; nothing was sent."""


class NoReply(ClientError):
    """A request was stored, and no consumer replied in time."""


def not_acknowledged(
    cause: str, failed: ClientError, receipts: Sequence[object] = ()
) -> NotAcknowledged:
    """Return the error for messages of which the last attempt failed so."""
    return NotAcknowledged(
        cause,
        failed.remedy,
        broker=failed.broker,
        code=failed.code,
        remark=failed.remark,
        refuses_account=failed.refuses_account,
        receipts=receipts,
    )


def closed_meanwhile() -> NotAcknowledged:
    """Return the error for a call that was under way when its client was closed."""
    return NotAcknowledged(
        "the client was closed while this call was under way",
        "What it sent may be stored, or not. Close a client after its last call",
    )


def unexpected(work: str, error: Exception) -> ClientError:
    """Log an error that nobody expected, and return the one that its user gets."""
    logger.error("%s failed", work, exc_info=error)
    return ClientError(f"{work} failed: {error!r}", OWN_REMEDY)


def log_unexpected(work: str) -> OnFailed:
    """Return what logs an error of background work, for an owner that goes on (`background`)."""
    return partial(unexpected, work)


def refused(
    broker: str, cause: str, response: RemotingCommand, remedies: Mapping[int, str]
) -> ClientError:
    """Return the error for a response by which a broker refuses; `remedies` are by code."""
    refuses_account = is_account_refused(response)
    return ClientError(
        cause,
        ACCOUNT_REMEDY if refuses_account else remedies.get(response.code, CHECK_LOG),
        broker=broker,
        code=response.code,
        remark=response.remark or "",
        passes=response.code == ResponseCode.SERVICE_NOT_AVAILABLE,
        refuses_account=refuses_account,
    )


def unanswered(
    what: str, error: RemotingError, remedy: str = CHECK_RUNS, broker: str = ""
) -> ClientError:
    """Return the error for a call without an answer. remedy: where only the address is known."""
    return ClientError(
        f"{what}: {reason_of(error)}",
        remedy_of(error) or remedy,
        broker=broker,
        passes=passes(error),
    )


@asynccontextmanager
async def within(seconds_max: float, what: str, remedy: str = CHECK_RUNS) -> AsyncIterator[None]:
    """Let a block take so long. what: as `HOST:PORT does not answer`. Raises: ClientError."""
    try:
        async with asyncio.timeout(seconds_max):
            yield
    except TimeoutError:
        raise ClientError(f"{what} within {seconds_max:g} s", remedy, passes=True) from None


def tls_refused(error: TlsRefused) -> InvalidArgument:
    """Return the error for settings of TLS that cannot be used."""
    remedy = NAME_PEM
    return InvalidArgument(f"tls cannot be used: {error}", remedy)


@contextmanager
def allowing_refusal() -> Iterator[None]:
    """Leave a block that a broker refuses; what did not answer is raised. Raises: ClientError."""
    try:
        yield
    except ClientError as error:
        if error.code is None:
            raise


def passes(error: RemotingError) -> bool:
    """Return whether a broker that is being replaced, or starts, explains a call without answer."""
    return not isinstance(error, TlsFailed | TooManyCalls | ClientClosed)


def is_account_refused(response: RemotingCommand) -> bool:
    """Return whether access control refuses the request; it has no code of its own."""
    return response.code == ResponseCode.SYSTEM_ERROR and "AclException" in (response.remark or "")


def reason_of(error: RemotingError) -> str:
    """Return why a call failed; of a system error only its text, without number and address."""
    cause = error.__cause__
    # An error of TLS has a number of its own kind, which is 1 for a certificate.
    if isinstance(error, TlsFailed):
        return error.reason
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno)
    return error.reason


OTHER_ADDRESS: Final = " mismatch, certificate is not valid for"
"""What OpenSSL says of a certificate for another name or address."""


def remedy_of(error: RemotingError) -> str:
    """Return what to do about a peer without an answer, "" if only its address is known."""
    if isinstance(error, TlsFailed) and OTHER_ADDRESS in error.reason:
        return f"Call it by an address that its certificate is for, or {CHECK_NO_HOST}"
    if isinstance(error, TlsFailed):
        return f"Check that it serves TLS, and {GIVE_SIGNER}"
    if isinstance(error, SendFailed):
        return f"Check that RocketMQ listens there, and its log; if it requires TLS, {GIVE_TLS}"
    if isinstance(error, CallTimeout):
        return "Check that RocketMQ listens there, no other server, and that it is not overloaded"
    return ""


def describe(response: RemotingCommand) -> str:
    """Return the code of a response, the name of the code, and the remark in one line."""
    name = _CODE_NAMES.get(response.code, "unknown")
    return f"{response.code} ({name}): {one_line(response.remark or 'no reason given')}"


def one_line(remark: str) -> str:
    """Return a remark in one line, without the list of all words that a parser had expected."""
    return " ".join(remark.partition("Was expecting one of:")[0].split()).rstrip(". ")
