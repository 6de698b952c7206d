"""Actions on groups."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wakelog.client.admin import Admin
from wakelog.console.actions.action import Action, Field, Shown, Values, Words

GROUP: Final = Field("group", "Group")
TOPIC: Final = Field("topic", "Topic")
TO: Final = Field("to", "To", value="now", help="beginning, now, 2h, or 2026-11-24T06:00")


def _reset(values: Values) -> Words:
    return ["reset", values["group"], values["topic"], "--to", values["to"], "--yes"]


def _skip(values: Values) -> Words:
    return ["reset", values["group"], values["topic"], "--to", "now", "--yes"]


async def _lag_text(admin: Admin, values: Values) -> str:
    stats = await admin.consume_stats(values["group"], values["topic"])
    return f"{values['group']} lags by {stats.total_diff():,} on {values['topic']} now"


async def _before_skip(admin: Admin, values: Values) -> list[str]:
    return [await _lag_text(admin, values), "it will consume none of them"]


def _show_reset(values: Values) -> Words:
    return ["reset", values["group"], values["topic"], "--to", values["to"]]


def _sum_reset(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say how many messages come again, and how many never. rows: a queue each."""
    moves = [x["offset"] - x["consumedTo"] for x in rows if "consumedTo" in x]
    again, skipped = -sum(x for x in moves if x < 0), sum(x for x in moves if x > 0)
    return [f"gives {again:,} messages again, skips {skipped:,}"]


def _delete(values: Values) -> Words:
    return ["admin", "deleteSubGroup", "-c", values["cluster"], "-g", values["group"]]


async def _before_delete(admin: Admin, values: Values) -> list[str]:
    stats = await admin.consume_stats(values["group"])
    return [
        f"its offsets of {len(stats.offset_table):,} queues are forgotten",
        f"{stats.total_diff():,} messages wait for it",
    ]


def _resend(values: Values) -> Words:
    chosen = [word for each in values["id"].split() for word in ("--id", each)]
    return ["dlq", "resend", values["group"], *(chosen or ["--all"])]


async def _before_resend(admin: Admin, values: Values) -> list[str]:
    count = len(values["id"].split())
    group = values["group"]
    if not count:
        return [f"{group} consumes all of its dead letters again"]
    letters = "1 dead letter" if count == 1 else f"{count:,} dead letters"
    return [f"{group} consumes {letters} again; they also stay where they are"]


ACTIONS: Final = (
    Action(
        "resend-dead-letters",
        "Send dead letters again",
        (GROUP, Field("id", "Message ids", is_required=False, help="blanks between; none for all")),
        _resend,
        "/dead-letters/{group}",
        _before_resend,
    ),
    Action(
        "reset-offsets",
        "Reset offsets",
        (GROUP, TOPIC, TO),
        _reset,
        "/groups/{group}",
        shown=Shown(_show_reset, _sum_reset),
    ),
    Action(
        "skip-messages",
        "Skip messages",
        (GROUP, TOPIC),
        _skip,
        "/groups/{group}",
        _before_skip,
        typed="group",
    ),
    Action(
        "delete-group",
        "Delete group",
        (GROUP, Field("cluster", "Cluster")),
        _delete,
        "/groups",
        _before_delete,
        typed="group",
    ),
)
