"""Actions on half messages."""

from typing import Final

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError
from wakelog.client.received import ReceivedMessage
from wakelog.console.actions.action import Action, Field, Values, Words
from wakelog.console.views.messages import visible
from wakelog.console.waiting import open_half


def _check_again(values: Values) -> Words:
    return ["admin", "resumeCheckHalfMessage", "-i", values["id"]]


async def _before_check_again(admin: Admin, values: Values) -> list[str]:
    half = open_half(ReceivedMessage(await admin.view_message(values["id"])))
    if not half.topic:
        raise ClientError("this is no half message", "Take an id from the page of transactions")
    topic, group = visible(half.topic), visible(half.group)
    try:
        producers = len((await admin.producers(half.group, half.topic)).connection_set)
    except ClientError as error:
        if error.code is None:
            raise
        producers = 0  # as both say of a group that is not online
    return [
        f"1 half message of topic {topic} is put back; its {half.checks:,} checks count from 0",
        f"of producer group {group} {producers:,} clients are online to be asked"
        + ("" if producers else ": without one it is given up again"),
        "done twice, it is there twice, and may be committed twice",
    ]


ACTIONS: Final = (
    Action(
        "check-again",
        "Check a half message again",
        (
            Field(
                "id",
                "Id of the message",
                pattern=r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})",
                help="the id that a broker gave: 32 or 56 digits and letters from A to F",
            ),
        ),
        _check_again,
        "/transactions",
        _before_check_again,
        does="The broker asks its producer group again what became of the transaction.",
    ),
)
