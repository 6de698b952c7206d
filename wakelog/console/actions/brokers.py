"""Actions on brokers."""

from typing import Final

from wakelog.client.admin import Admin
from wakelog.console.actions.action import Action, Field, Values, words_of


async def _before_change(admin: Admin, values: Values) -> list[str]:
    found = await admin.configuration(values["broker"])
    key, now = values["key"], found.settings.get(values["key"])
    if now is None:
        return [f"this broker shows no {key}: it may refuse the key, or keep it without a use"]
    return [f"{key} is {now or 'empty'} now, and will be {values['value']}"]


ACTIONS: Final = (
    Action(
        "change-setting",
        "Change setting",
        (
            Field("broker", "Broker", help="HOST:PORT"),
            Field("key", "Key"),
            Field("value", "Value"),
        ),
        words_of("admin updateBrokerConfig -b {broker} -k {key} -v {value}"),
        "/brokers",
        _before_change,
    ),
)
