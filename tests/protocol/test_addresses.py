"""Addresses in settings."""

import pytest

from wakelog.protocol.addresses import read_name_servers


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
