"""The line of the audit log about one request: from whom and from where, what, and how it ended.

What it was about is named by the attributes of its header in `NAMING`, and by `names_in` of its
row, also if it was refused. So a line never has a secret key, a password, the value of a setting,
or bytes of a message.

The account is the one that the request names. If its signature was refused, so was the request. A
server that checks none has only the client's word for it.

Source: no counterpart in 4.9.3, which logs some of these requests in broker.log.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from wakelog.network.handler import Channel
from wakelog.network.request import Processor
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.errors import ProtocolError
from wakelog.protocol.ext_fields import Header, read_header

NAMING: Final = {
    **dict.fromkeys(("topic", "group"), ""),
    **dict.fromkeys(("group_name", "consumer_group"), "group"),
    **dict.fromkeys(("src_group", "dest_group", "filter_groups", "queue_id"), ""),
    "timestamp": "to_timestamp",  # `timestamp` is when the line was written
    **dict.fromkeys(("msg_id", "client_id", "access_key", "broker_name", "cluster_name"), ""),
    **dict.fromkeys(("namespace", "key", "filter_server_addr", "remove_offset", "is_force"), ""),
    **dict.fromkeys(("offline", "read_queue_nums", "write_queue_nums", "perm", "admin"), ""),
    **dict.fromkeys(("default_topic_perm", "default_group_perm", "topic_perms"), ""),
    **dict.fromkeys(("group_perms", "white_remote_address", "global_white_addrs"), ""),
}
"""Attributes of headers that say what a request is about, in the order of a line, and what a line
calls them if not the same."""

REFUSED_BODY_BYTES_MAX: Final = 4_096
"""What a larger body of a refused request names is not read: whoever is refused may send many."""

NO_RESPONSE: Final = "none"
"""The result of a request that is one-way, whose client has left, or that ended in a mistake."""

_NAMES: Final = {int(code): code.name for code in RequestCode}
_RESULTS: Final = {int(code): code.name for code in ResponseCode}


class AuditLine(NamedTuple):
    """A line: `event` is the name of the code. is_failed: it has changed nothing."""

    event: str
    values: dict[str, Any]
    is_failed: bool


def audit_line(
    command: RemotingCommand,
    header: Header | None,
    channel: Channel,
    processor: Processor,
    response: RemotingCommand | None,
) -> AuditLine:
    """Return the line about a request. header: None if it was refused before it was read."""
    code = None if response is None else response.code
    values: dict[str, Any] = {
        "account": command.ext_fields.get("AccessKey", ""),
        "address": f"{channel.remote_host}:{channel.remote_port}",
        "code": command.code,
        **dict(_named(header or _claimed(command, processor))),
    }
    is_read = code == ResponseCode.SUCCESS or len(command.body) <= REFUSED_BODY_BYTES_MAX
    if response is not None and is_read and processor.names_in is not None:
        with suppress(ProtocolError, ValueError):  # the handler has read it in its own way
            values.update(processor.names_in(command.body))
    values["result"] = NO_RESPONSE if code is None else _RESULTS.get(code, str(code))
    is_failed = response is not None and code != ResponseCode.SUCCESS
    if response is not None and is_failed:
        values["remark"] = response.remark or ""
    return AuditLine(_NAMES.get(command.code, str(command.code)), values, is_failed)


def _claimed(command: RemotingCommand, processor: Processor) -> Header | None:
    """Return the header of a request that was refused before it was read, None if it has none."""
    if processor.header is not None:
        with suppress(ProtocolError):
            return read_header(processor.header, command.ext_fields)
    return None


def _named(header: Header | None) -> Iterator[tuple[str, Any]]:
    for name, shown in NAMING.items():
        value = getattr(header, name, None)
        if value is not None:
            yield shown or name, value
