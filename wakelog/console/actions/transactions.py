"""Actions on half messages."""

from typing import Final

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError, allowing_refusal
from wakelog.client.received import ReceivedMessage
from wakelog.console.actions.action import Action, Values, words_of
from wakelog.console.actions.messages import ID
from wakelog.console.views.messages import visible
from wakelog.console.waiting import open_half


async def _before_check_again(admin: Admin, values: Values) -> list[str]:
    half = open_half(ReceivedMessage(await admin.view_message(values["id"])))
    if not half.topic:
        raise ClientError("this is no half message", "Take an id from the page of transactions")
    topic, group = visible(half.topic), visible(half.group)
    producers = 0
    with allowing_refusal():  # so does a broker with a group that is not online
        producers = len((await admin.producers(half.group, half.topic)).connection_set)
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
        (ID,),
        words_of("admin resumeCheckHalfMessage -i {id}"),
        "/transactions",
        _before_check_again,
        does="The broker asks its producer group again what became of the transaction.",
    ),
)
