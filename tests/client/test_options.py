"""The options of a client in errors and logs."""

import pytest

from wakelog.client.options import ClientOptions, read_name_servers
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls


def test_the_text_of_options_has_no_secret() -> None:
    options = ClientOptions(
        ("a:1",), credentials=Credentials("key", "hush", "token"), tls=Tls(key_password="hush")
    )
    assert "hush" not in repr(options) and "token" not in repr(options)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("", ()),
        ("h:1; [::1]:65535;", ("h:1", "[::1]:65535")),
        ("h", None),
        ("h:0;g:1", None),
        ("h:65536", None),
        ("h:1,g:1", None),
    ],
)
def test_addresses_have_ports_and_semicolons(text: str, addresses: tuple[str, ...] | None) -> None:
    if addresses is None:
        with pytest.raises(ValueError, match="HOST:PORT"):
            read_name_servers(text)
    else:
        assert read_name_servers(text) == addresses
