"""Delays by time: the level of the shortest delay of a broker that is long enough.

A message carries the number of a level, and each broker has a table of its own. It is read once.

Source: org.apache.rocketmq.store.config.MessageStoreConfig#messageDelayLevel (4.9.3).
"""

from datetime import timedelta

from wakelog.client.admin import Admin
from wakelog.client.errors import ClientError, InvalidArgument
from wakelog.client.plain import delay_milliseconds
from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS, level_of, read_delay_levels


class Delays:
    """See the module. One loop, one thread."""

    def __init__(self, admin: Admin) -> None:
        """Ask nothing yet."""
        self._admin = admin
        self._delays_ms: dict[str, tuple[int, ...]] = {}  # by the address of the broker

    async def level(self, delay: timedelta, address: str) -> int:
        """Return the level of a delay at the broker with this address, 0 for none.

        Raises: InvalidArgument for one below 0 or over every level; ClientError without an answer.
        """
        delay_ms = delay_milliseconds(delay)
        if delay_ms == 0:
            return 0
        if address not in self._delays_ms:
            self._delays_ms[address] = await self._read(address)
        level = level_of(delay_ms, self._delays_ms[address])
        if level is None:
            longest = timedelta(milliseconds=max(self._delays_ms[address]))
            cause = f"a delay of {delay} is over {longest}, the longest of {address}"
            raise InvalidArgument(cause, "Give a shorter one, or change its messageDelayLevel")
        return level

    async def _read(self, address: str) -> tuple[int, ...]:
        """Return a broker's table of delays; the default one if the account may not read it."""
        settings: dict[str, str] = {}
        try:
            settings = (await self._admin.configuration(address)).in_use
        except ClientError as error:
            if error.code is None:
                raise
        return read_delay_levels(settings.get("messageDelayLevel", DEFAULT_DELAY_LEVELS))
