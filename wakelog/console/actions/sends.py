"""The action that sends a message."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from wakelog.client.admin import Admin
from wakelog.console.actions.action import Action, Field, Values, Words
from wakelog.console.actions.topics import TOPIC
from wakelog.console.quantities import counted
from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS

DELAYS: Final = tuple((text, text) for text in DEFAULT_DELAY_LEVELS.split())
_PROPERTIES: Final = r"(?:[^=\n]+=[^\n]*(?:\n+|\Z))*"


def _send(values: Values) -> Words:
    words = ["send"]
    for name in ("tags", "keys", "delay"):
        words += [f"--{name}", values[name]] if values[name] else []
    for line in values["properties"].split("\n"):
        words += ["--property", line] if line.strip() else []
    given = [values["topic"], values["body"]]
    return [*words, *(["--"] if any(x.startswith("-") for x in given) else []), *given]


async def _before_send(admin: Admin, values: Values) -> list[str]:
    if await admin.routes.find(values["topic"]) is None:
        return ["the topic is not there: a broker with autoCreateTopicEnable makes it"]
    queues = await admin.routes.writable(values["topic"])
    brokers = len({queue.broker for queue in queues})
    groups = await admin.groups_of(values["topic"])
    names = f": {', '.join(groups)}" if groups else ""
    return [
        f"it goes to one of {counted(len(queues), 'queue')} at {counted(brokers, 'broker')}",
        f"{counted(len(groups), 'group')} that may get it{names}",
    ]


def _links(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [
        (
            f"Message {row['messageId']}",
            f"/messages/{quote(row['offsetMessageId'])}?topic={quote(row['topic'])}",
        )
        for row in rows
    ]


ACTIONS: Final = (
    Action(
        "send-message",
        "Send message",
        (
            TOPIC,
            Field("body", "Body", "lines"),
            Field("tags", "Tag", is_required=False),
            Field("keys", "Keys", is_required=False, help="blanks between"),
            Field(
                "properties",
                "Properties",
                "lines",
                is_required=False,
                pattern=_PROPERTIES,
                help="NAME=VALUE, one a line",
            ),
            Field(
                "delay",
                "Delay",
                "choice",
                is_required=False,
                choices=(("", "none"), *DELAYS),
                help="a level of the brokers' messageDelayLevel",
            ),
        ),
        _send,
        "/topics/{topic}",
        _before_send,
        posts_fields=True,
        links=_links,
    ),
)
