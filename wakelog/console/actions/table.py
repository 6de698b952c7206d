"""Every action of the console, by its name."""

from collections.abc import Mapping
from typing import Final

from wakelog.console.actions import (
    brokers,
    cluster_accounts,
    group_settings,
    groups,
    maintenance,
    messages,
    name_servers,
    sends,
    topic_settings,
    topics,
    transactions,
)
from wakelog.console.actions.action import Action

_FAMILIES: Final = (
    topics, topic_settings, sends, groups, group_settings, messages, brokers, maintenance,
    name_servers, transactions, cluster_accounts,
)  # fmt: skip
ACTIONS: Final[Mapping[str, Action]] = {
    action.name: action for family in _FAMILIES for action in family.ACTIONS
}
