"""The keys of NettyServerConfig: with the three that are obeyed there are 14."""

from wakelog.network.netty_keys import NETTY_SERVER_ROWS
from wakelog.storage.settings_text import keys_without_effect


def test_eleven_keys_have_a_default_and_no_effect() -> None:
    table = keys_without_effect(NETTY_SERVER_ROWS)
    assert len(table) == 14 - len(("listenPort", "serverChannelMaxIdleTimeSeconds", "backlog"))
    assert all(row.default for row in table.values())
