"""Delays by time: the level of the shortest delay of a broker that is long enough.

A message carries the number of a level, and each broker has a table of its own. It is read once.
An account that may not read it gets the delays of 4.9.3's default. Another refusal is an error.

Source: org.apache.rocketmq.store.config.MessageStoreConfig#messageDelayLevel (4.9.3).
"""

import logging
from datetime import timedelta
from typing import Final

from wakelog.client.configuration import read_configuration
from wakelog.client.errors import (
    InvalidArgument,
    describe,
    is_account_refused,
    refused,
    unanswered,
)
from wakelog.client.options import ClientOptions
from wakelog.client.plain import delay_milliseconds
from wakelog.client.route import Connections
from wakelog.network.errors import RemotingError
from wakelog.protocol.codes import RequestCode, ResponseCode
from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.delay_levels import DEFAULT_DELAY_LEVELS, level_of, read_delay_levels

# The broker never gives its table to this account, or has no such request.
_NOT_GIVEN: Final = frozenset({ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED})

logger = logging.getLogger("wakelog.client")


class Delays:
    """See the module. One loop, one thread."""

    def __init__(self, connections: Connections, options: ClientOptions) -> None:
        """Ask nothing yet."""
        self._connections = connections
        self._options = options
        self._delays_ms: dict[str, tuple[int, ...]] = {}  # by the address of the broker

    async def level(self, delay: timedelta, address: str) -> int:
        """Return the level of a delay at the broker with this address, 0 for none.

        Raises: InvalidArgument for one below 0 or over every level; ClientError if the
        broker does not answer, or refuses for now.
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
        """Return a broker's table of delays; the default one if the account may not read it.

        Raises: ClientError.
        """
        code = RequestCode.GET_BROKER_CONFIG
        try:
            response = await self._connections.invoke(
                address, RemotingCommand(int(code)), timeout_ms=self._options.timeout_ms
            )
        except RemotingError as error:
            raise unanswered(f"{address} does not answer {code.name}", error) from error
        settings: dict[str, str] = {}
        if response.code == ResponseCode.SUCCESS:
            settings = read_configuration(response).in_use
        elif response.code in _NOT_GIVEN or is_account_refused(response):
            said = describe(response)
            logger.warning(
                "%s does not say its delays, so the usual ones are used: %s", address, said
            )
        else:
            cause = f"{address} answered {code.name} with {describe(response)}"
            raise refused(address, cause, response, {})
        return read_delay_levels(settings.get("messageDelayLevel", DEFAULT_DELAY_LEVELS))
