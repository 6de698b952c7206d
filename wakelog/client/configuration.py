"""The settings of a broker or name server, as it answers GET_BROKER_CONFIG and GET_NAMESRV_CONFIG.

One line has one key and its value. wakelog says in a field of the header which keys wait for a
restart.

Source: org.apache.rocketmq.broker.processor.AdminBrokerProcessor#getBrokerConfig (4.9.3).
"""

from typing import NamedTuple

import msgspec

from wakelog.protocol.command import RemotingCommand
from wakelog.protocol.names import WAITING_FIELD
from wakelog.typed_values import decode_json


class Configuration(NamedTuple):
    """The settings of a broker or name server.

    settings: every key, with the value that it has after a restart. waiting: the values in use of
    those keys that wait for one.
    """

    settings: dict[str, str]
    waiting: dict[str, str]

    @property
    def in_use(self) -> dict[str, str]:
        """The settings by which it goes now."""
        return self.settings | self.waiting


def read_configuration(response: RemotingCommand) -> Configuration:
    """Return the settings that an answer has."""
    text = bytes(response.body).decode(errors="replace")
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    settings = {key: value for key, separator, value in pairs if separator}
    waiting = response.ext_fields.get(WAITING_FIELD, "{}")
    try:
        return Configuration(settings, decode_json(waiting, dict[str, str]))
    except msgspec.DecodeError:
        return Configuration(settings, {})  # another program's field
