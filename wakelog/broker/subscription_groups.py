"""SubscriptionGroups: the configuration of each consumer group, and subscriptionGroup.json.

The system's groups exist from the start. Any other is created at its first use, if
autoCreateSubscriptionGroup allows it. Groups of light queues (%LMQ%...) never enter the table.

Invariants: every name in the table is legal; the DataVersion changes whenever the table does.

Source: org.apache.rocketmq.broker.subscription.{SubscriptionGroupManager,
LmqSubscriptionGroupManager} (4.9.3), which make a new version at every read of an unknown group.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from wakelog.broker import names
from wakelog.broker.changes import persist_again, restore
from wakelog.broker.config import BrokerConfig
from wakelog.broker.decision import Instruction, Persist
from wakelog.broker.table_limits import DEFAULT_LIMITS, TableLimits, table_full
from wakelog.broker.topics import QUEUE_COUNT_MAX
from wakelog.protocol.bodies import DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper
from wakelog.protocol.body_codec import decode_file
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.protocol.fastjson import dumps
from wakelog.protocol.names import SYSTEM_GROUP_PREFIX, is_legal_group


class SubscriptionGroups:
    """Group configurations by name."""

    def __init__(
        self,
        config: BrokerConfig,
        instructions: list[Instruction],
        now_ms: int,
        *,
        lmq: bool = False,
        limits: TableLimits = DEFAULT_LIMITS,
    ) -> None:
        self._config = config
        self._instructions = instructions
        self._lmq = lmq
        self._groups_max = limits.groups
        self._table = {name: SubscriptionGroupConfig(name) for name in names.SYSTEM_GROUPS}
        self._dropped_name_count = 0
        self.data_version = DataVersion(now_ms, 0)

    def find(self, group: str, now_ms: int) -> SubscriptionGroupConfig | None:
        """Return a group's configuration, created if that is allowed; None without one.

        Raises: LimitReached.
        """
        found = self.would_find(group)
        if found is None or group in self._table or (self._lmq and names.is_lmq(group)):
            return found
        self._put(found, now_ms)
        return self._table[group]

    def would_find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return what `find` returns, and create nothing."""
        found = self._table.get(group)
        if found is not None or not is_legal_group(group):
            return found
        creates = (
            self._config.auto_create_subscription_group
            or group.startswith(SYSTEM_GROUP_PREFIX)
            or (self._lmq and names.is_lmq(group))
        )
        return SubscriptionGroupConfig(group) if creates else None

    def update(self, config: SubscriptionGroupConfig, now_ms: int) -> None:
        """Define or replace a group.

        Raises: RemoteProtocolError if the name or the number of retry queues is not legal;
            LimitReached.
        """
        name = config.group_name
        undo = partial(self._restore, name, config, self._table.get(name), now_ms)
        self._put(config, now_ms, undo)

    def _put(
        self, config: SubscriptionGroupConfig, now_ms: int, undo: Callable[[], None] | None = None
    ) -> None:
        names.check_group(config.group_name)
        if not 0 <= config.retry_queue_nums <= QUEUE_COUNT_MAX:
            remark = f"retryQueueNums[{config.retry_queue_nums}] is not 0 to {QUEUE_COUNT_MAX}"
            raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, remark)
        if config.group_name not in self._table and len(self._table) >= self._groups_max:
            raise table_full("groups", self._groups_max)
        self._table[config.group_name] = config
        self._changed(now_ms, undo)

    def disable_consumption(self, group: str, now_ms: int) -> bool:
        """Let a group consume no more; return whether it could until now."""
        found = self._table.get(group)
        if found is None or not found.consume_enable:
            return False
        self._table[group] = msgspec.structs.replace(found, consume_enable=False)
        self._changed(now_ms, None)
        return True

    def remove(self, group: str, now_ms: int) -> None:
        """Remove a group, if there is one; a group of the system comes back at the next start."""
        found = self._table.pop(group, None)
        if found is None:
            self._instructions.append(persist_again("subscriptionGroup"))
        else:
            self._changed(now_ms, partial(self._restore, group, None, found, now_ms))

    def wrapper(self) -> SubscriptionGroupWrapper:
        """Return a copy of the table, the body of code 201's response."""
        return SubscriptionGroupWrapper(dict(self._table), self.data_version)

    def snapshot(self) -> Callable[[], str]:
        """Copy the table; return a function that encodes the copy as subscriptionGroup.json."""
        content = self.wrapper()
        return lambda: dumps(content, pretty=True).decode()

    def load(self, text: str) -> None:
        """Add the groups of a file to the system's own.

        Raises: ValueError if the text is not a table of groups.
        """
        self._add(decode_file(SubscriptionGroupWrapper, text))

    def replace(self, text: str) -> None:
        """Have the groups of a master's table, and the system's own, and no others.

        Raises: ValueError if the text is not a table of groups; then nothing is replaced.
        """
        content = decode_file(SubscriptionGroupWrapper, text)
        self._table = {name: SubscriptionGroupConfig(name) for name in names.SYSTEM_GROUPS}
        self._add(content)

    def _add(self, content: SubscriptionGroupWrapper) -> None:
        for name, group in content.subscription_group_table.items():
            if is_legal_group(name):
                self._table[name] = group
                group.group_name = name
                # 4.9.3 accepts any number; 0 or less means that retries are dropped.
                group.retry_queue_nums = min(max(group.retry_queue_nums, 0), QUEUE_COUNT_MAX)
            else:
                self._dropped_name_count += 1
        self.data_version = content.data_version

    def statistics(self) -> dict[str, Any]:
        """Return size and version."""
        return {
            "group_count": len(self._table),
            "dropped_name_count": self._dropped_name_count,
            "data_version": self.data_version,
        }

    def validate(self) -> None:
        """Assert the invariants of the module."""
        for name, group in self._table.items():
            assert name == group.group_name
            assert is_legal_group(name)
            assert 0 <= group.retry_queue_nums <= QUEUE_COUNT_MAX

    def _restore(
        self,
        name: str,
        ours: SubscriptionGroupConfig | None,
        before: SubscriptionGroupConfig | None,
        now_ms: int,
    ) -> None:
        if restore(self._table, name, ours, before):
            self.data_version = self.data_version.next(now_ms)

    def _changed(self, now_ms: int, undo: Callable[[], None] | None = None) -> None:
        self.data_version = self.data_version.next(now_ms)
        # One each, even in one turn: it marks the response that has to wait for it.
        self._instructions.append(Persist("subscriptionGroup", undo))
