"""What a slave knows of its master."""

import pytest

from wakelog.broker.config import BrokerConfig
from wakelog.broker.replication.ha_client_state import MasterLog
from wakelog.broker.replication.master import MasterAddress, read_facts
from wakelog.protocol.bodies import KVTable, encode_body
from wakelog.protocol.errors import RemoteProtocolError

CONFIG = b"brokerClusterName=C\nbrokerName=b\nmappedFileSizeCommitLog=4096\nother=\n"
RUNTIME = encode_body(KVTable({"commitLogMinOffset": "4096", "commitLogMaxOffset": "9000"}))


def test_a_master_answers_requests_below_the_port_for_slaves() -> None:
    assert MasterAddress.of("10.0.0.1:10912") == ("10.0.0.1:10912", "10.0.0.1:10911")


def test_facts_are_read_from_two_answers() -> None:
    facts = read_facts(CONFIG, RUNTIME)
    assert facts == ("C", "b", MasterLog(4096, 9000, 4096))
    own = BrokerConfig(broker_cluster_name="C", broker_name="b")
    assert facts.mismatch(own) == ""
    other = BrokerConfig(broker_cluster_name="C", broker_name="x")
    assert "brokerName is x here and b there" in facts.mismatch(other)
    other = BrokerConfig(broker_cluster_name="D", broker_name="b")
    assert "brokerClusterName is D here and C there" in facts.mismatch(other)


def test_a_real_master_without_a_segment_begins_at_zero() -> None:
    """It says -1."""
    runtime = encode_body(KVTable({"commitLogMinOffset": "-1", "commitLogMaxOffset": "0"}))
    assert read_facts(CONFIG, runtime).log == MasterLog(0, 0, 4096)


@pytest.mark.parametrize(
    ("config", "runtime"),
    [(b"brokerName=b\n", RUNTIME), (CONFIG, b'{"table":{}}'), (CONFIG, b"[]"), (b"", b"")],
)
def test_an_answer_without_them_is_refused(config: bytes, runtime: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_facts(config, runtime)
