"""What a slave knows of its master: its addresses, and what it says of itself.

Source: org.apache.rocketmq.broker.BrokerController.doRegisterBrokerAll (4.9.3), where the first
name server to answer decides.
"""

from typing import NamedTuple, Self

from wakelog.broker.config import PORTS_ABOVE, BrokerConfig
from wakelog.broker.replication.ha_client_state import MasterLog
from wakelog.protocol.bodies import KVTable, decode_body
from wakelog.protocol.errors import RemoteProtocolError
from wakelog.storage.settings_text import parse_properties


class MasterAddress(NamedTuple):
    """Where a master takes slaves, and where it answers requests."""

    ha: str
    broker: str

    @classmethod
    def of(cls, ha_address: str) -> Self:
        """Return the addresses of a master whose slaves connect to `host:port`."""
        host, _, port = ha_address.rpartition(":")
        return cls(ha_address, f"{host}:{int(port) - PORTS_ABOVE}")


class MasterFacts(NamedTuple):
    """What a master answers to codes 26 and 28."""

    cluster: str
    broker_name: str
    log: MasterLog

    def mismatch(self, config: BrokerConfig) -> str:
        """Return why it is not the master of this broker, "" if it is."""
        for key, own, other in (
            ("brokerClusterName", config.broker_cluster_name, self.cluster),
            ("brokerName", config.broker_name, self.broker_name),
        ):
            if own != other:
                return f"it is no master of this broker: {key} is {own} here and {other} there"
        return ""


def read_facts(config_body: bytes, runtime_body: bytes) -> MasterFacts:
    """Read the bodies of both answers. Raises: RemoteProtocolError if something is missing."""
    settings = parse_properties(config_body.decode("utf-8", "replace"))
    try:
        return MasterFacts(
            settings["brokerClusterName"],
            settings["brokerName"],
            MasterLog(*read_ends(runtime_body), int(settings["mappedFileSizeCommitLog"])),
        )
    except (KeyError, ValueError) as error:
        raise RemoteProtocolError(1, f"a master's answer lacks {error}") from None


def read_ends(runtime_body: bytes) -> tuple[int, int]:
    """Return where the log begins and ends, of an answer to code 28.

    Raises: RemoteProtocolError, KeyError or ValueError if something is missing.
    """
    runtime = decode_body(KVTable, runtime_body).table
    # A 4.9.3 broker that has no segment yet begins at -1.
    return max(0, int(runtime["commitLogMinOffset"])), int(runtime["commitLogMaxOffset"])
