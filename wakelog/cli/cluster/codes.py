"""`wakelog explain CODE`: what a request or response code means, when it comes, and what to do.

Source: org.apache.rocketmq.common.protocol.ResponseCode and the processors of 4.9.3's broker.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from wakelog.actors.errors import NotPossible
from wakelog.broker.processors.table import PROCESSORS
from wakelog.nameserver.processors import PROCESSORS as NAME_SERVER_PROCESSORS
from wakelog.protocol.codes import RequestCode, ResponseCode

_CITED: Final = re.compile(r" \((?:code|fact)[^)]*\)")


class Meaning(NamedTuple):
    """When a response has a code, and what to do then."""

    when: str
    remedy: str = "Nothing: it is no error."


_ASK_LOG: Final = "Read the remark, and look into the log of the program that answered."

MEANINGS: Final[dict[ResponseCode, Meaning]] = {
    ResponseCode.SUCCESS: Meaning("The request was done."),
    ResponseCode.SYSTEM_ERROR: Meaning(
        "Something failed that has no code of its own: an exception, access control, a disk.",
        "Read the remark. With AclException in it, check the keys and the account's permissions.",
    ),
    ResponseCode.SYSTEM_BUSY: Meaning(
        "The broker refuses work for now: sends wait too long, or the page cache is slow.",
        "Send slower or to more brokers; look at disk and CPU. Producers try another broker.",
    ),
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Meaning(
        "The program does not answer this request, or another kind of program does.",
        "Check that the address is that of a broker or name server, as the request needs.",
    ),
    ResponseCode.TRANSACTION_FAILED: Meaning("4.9.3 sends it nowhere.", _ASK_LOG),
    ResponseCode.FLUSH_DISK_TIMEOUT: Meaning(
        "The message is stored, and was not on disk within syncFlushTimeout (5 s).",
        "Look at the disk. Sending again stores it twice.",
    ),
    ResponseCode.SLAVE_NOT_AVAILABLE: Meaning(
        "The message is stored, and a SYNC_MASTER has no slave that is near enough.",
        "Start the slave. Sending again stores it twice.",
    ),
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Meaning(
        "The message is stored, and no slave had it in time.",
        "Look at the slave and the network. Sending again stores it twice.",
    ),
    ResponseCode.MESSAGE_ILLEGAL: Meaning(
        "Topic, properties or body are too long, or a batch is not allowed there.",
        "Read the remark; maxMessageSize is 4 MiB, properties have 32 KiB.",
    ),
    ResponseCode.SERVICE_NOT_AVAILABLE: Meaning(
        "The store takes no messages: the disk is full, it stops, or it is a slave.",
        "Run wakelog doctor; free the disk, or send to the master.",
    ),
    ResponseCode.VERSION_NOT_SUPPORTED: Meaning("4.9.3 sends it nowhere.", _ASK_LOG),
    ResponseCode.NO_PERMISSION: Meaning(
        "Broker, topic or group may not be written or read so.",
        "Look at brokerPermission, the topic's perm and the group's consumeEnable.",
    ),
    ResponseCode.TOPIC_NOT_EXIST: Meaning(
        "The topic is unknown there; or at a name server no broker has it.",
        "Check its name (wakelog topics), or create it (wakelog admin updateTopic).",
    ),
    ResponseCode.TOPIC_EXIST_ALREADY: Meaning("4.9.3 sends it nowhere.", _ASK_LOG),
    ResponseCode.PULL_NOT_FOUND: Meaning("There is no message at the offset yet."),
    ResponseCode.PULL_RETRY_IMMEDIATELY: Meaning("No message of this pull passed the filter."),
    ResponseCode.PULL_OFFSET_MOVED: Meaning(
        "The offset is outside the queue: messages expired, or the queue was made again.",
        "Clients go on at the offset in the answer. Consume faster, or keep messages longer.",
    ),
    ResponseCode.QUERY_NOT_FOUND: Meaning(
        "There is no such offset, message or value.", "Nothing, if it is new; else check the names."
    ),
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Meaning(
        "The filter expression cannot be read.", "Correct it: docs/filter.md has the language."
    ),
    ResponseCode.SUBSCRIPTION_NOT_EXIST: Meaning(
        "The broker has no subscription of this group to the topic.",
        "Nothing for a new consumer: its next heartbeat brings it. Else look at subscriptions.",
    ),
    ResponseCode.SUBSCRIPTION_NOT_LATEST: Meaning(
        "The broker's subscription is older than the client's.",
        "Nothing: the next heartbeat brings the newer one. If it stays, subscriptions differ.",
    ),
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Meaning(
        "The consumer group is unknown, and autoCreateSubscriptionGroup is off.",
        "Create it (wakelog admin updateSubGroup).",
    ),
    ResponseCode.FILTER_DATA_NOT_EXIST: Meaning(
        "The broker has no compiled SQL92 filter of this group.",
        "Nothing for a new consumer; else check enablePropertyFilter.",
    ),
    ResponseCode.FILTER_DATA_NOT_LATEST: Meaning(
        "The broker's SQL92 filter is older than the client's.",
        "Nothing: the next heartbeat brings the newer one.",
    ),
    ResponseCode.CONSUMER_NOT_ONLINE: Meaning(
        "The group has no client at this broker.", "Start a consumer of the group."
    ),
    ResponseCode.CONSUME_MSG_TIMEOUT: Meaning(
        "A client did not answer a question of the broker in time.",
        "Look at that client; old versions answer none.",
    ),
    ResponseCode.NO_MESSAGE: Meaning("4.9.3 sends it nowhere.", _ASK_LOG),
    ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED: Meaning(
        "The account was not changed.", "Read the remark; the account has to be an admin."
    ),
    ResponseCode.DELETE_ACL_CONFIG_FAILED: Meaning(
        "The account was not deleted.", "Check the access key."
    ),
    ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED: Meaning(
        "The addresses were not changed.", "Check that each is an address or a pattern of them."
    ),
}
"""The codes that are not here are constants without a use in 4.9.3."""


class Explained(NamedTuple):
    """A code as it is put out."""

    kind: str
    code: int
    name: str
    when: str
    remedy: str

    def lines(self) -> Iterator[str]:
        """Yield name, meaning and remedy."""
        yield f"{self.kind} {self.code}  {self.name}"
        yield f"    {self.when}"
        if self.remedy:
            yield f"    -> {self.remedy}"

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield the parts."""
        yield self._asdict()


def explain_code(text: str) -> list[Explained]:
    """Return what a number or a name means: as a response, and as a request.

    Raises: NotPossible for one that is neither.
    """
    wanted = text.strip().upper()
    found = [_response(code) for code in ResponseCode if wanted in (str(code.value), code.name)] + [
        _request(code) for code in RequestCode if wanted in (str(code.value), code.name)
    ]
    if not found:
        remedy = "Give a number such as 17, or a name such as TOPIC_NOT_EXIST."
        raise NotPossible(f"4.9.3 has no code {text!r}", remedy)
    return found


def _response(code: ResponseCode) -> Explained:
    when, remedy = MEANINGS.get(code, Meaning("4.9.3's broker sends it nowhere.", _ASK_LOG))
    return Explained("response", code.value, code.name, when, remedy)


def _request(code: RequestCode) -> Explained:
    answered = []
    summary = ""
    if code in PROCESSORS:
        answered.append(f"a broker, in lane {PROCESSORS[code].lane}")
        summary = _summary(PROCESSORS[code].handle)
    if code in NAME_SERVER_PROCESSORS:
        answered.append("a name server")
        summary = summary or _summary(NAME_SERVER_PROCESSORS[code].handle)
    if not answered:
        when = "No broker or name server of wakelog answers it: brokers send it, or nothing does."
        return Explained("request", code.value, code.name, when, "See docs/requests.md.")
    when = f"{summary} Answered by {' and '.join(answered)}.".strip()
    return Explained("request", code.value, code.name, when, "")


def _summary(handle: object) -> str:
    """Return what the function that answers a request says of itself."""
    text, _, _ = (handle.__doc__ or "").partition("\n")
    return _CITED.sub("", text).replace("``", "")
