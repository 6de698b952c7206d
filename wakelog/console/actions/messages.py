"""Actions on messages: sent again, and given to a client directly."""

from typing import Final

from wakelog.client.admin import Admin
from wakelog.client.message_search import by_id
from wakelog.client.received import ReceivedMessage
from wakelog.console.actions.action import Action, Field, Values, words_of
from wakelog.console.views.messages import visible

ID: Final = Field(
    "id",
    "Id of the message",
    pattern=r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})",
    help="the id that a broker gave: 32 or 56 digits and letters from A to F",
)
_TOPIC: Final = Field("topic", "Topic", is_required=False, help="for the way back")
_PAGE: Final = "/messages/{id}?topic={topic}"


async def _before_send_again(admin: Admin, values: Values) -> list[str]:
    message = await _message(admin, values)
    topic = message.full_topic
    groups = await admin.groups_of(topic)
    names = ", ".join(groups) or "none consumes it"
    return [
        f"topic {visible(topic)} gets 1 more message of {len(message.record.body):,} bytes",
        f"{len(groups):,} groups get it: {visible(names)}",
    ]


async def _before_consume(admin: Admin, values: Values) -> list[str]:
    message = await _message(admin, values)
    return [
        f"client {visible(values['client'])} of group {visible(values['group'])} consumes it now",
        f"it is from queue {message.queue_id} of topic {visible(message.full_topic)}, "
        f"{len(message.record.body):,} bytes",
        "no offset of the group changes: it may consume the message a second time",
    ]


async def _message(admin: Admin, values: Values) -> ReceivedMessage:
    """Return the message that the id of a broker names. Raises: ClientError."""
    [message] = await by_id(admin, values["id"])
    return message


ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        "send-message-again",
        "Send the message again",
        (ID, _TOPIC),
        words_of("admin queryMsgById -i {id} -s true"),
        _PAGE,
        _before_send_again,
        does="Its body and properties are stored once more, as a new message of its topic.",
    ),
    Action(
        "consume-message",
        "Consume the message directly",
        (ID, _TOPIC, Field("group", "Group"), Field("client", "Id of the client")),
        words_of("admin queryMsgById -i {id} -g {group} -d {client}"),
        _PAGE,
        _before_consume,
        does="A client that is online gets this one message, and says what came of it.",
    ),
)
