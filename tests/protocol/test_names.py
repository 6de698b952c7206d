"""What the checks of the broker and the client share; tests/broker/test_names.py has the cases."""

from wakelog.protocol.names import GROUP_LENGTH_MAX, NAME_LENGTH_MAX, is_legal_group, is_topic


def test_a_group_is_longer_than_its_retry_topic_may_be() -> None:
    group = "g" * GROUP_LENGTH_MAX
    assert is_legal_group(group)
    assert not is_topic(f"%RETRY%{group}")
    assert is_topic(f"%RETRY%{group}"[:NAME_LENGTH_MAX])
