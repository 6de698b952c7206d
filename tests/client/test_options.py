"""The options of a client in errors and logs."""

from wakelog.client.options import ClientOptions
from wakelog.network.signing import Credentials
from wakelog.network.tls import Tls


def test_the_text_of_options_has_no_secret() -> None:
    options = ClientOptions(
        ("a:1",), credentials=Credentials("key", "hush", "token"), tls=Tls(key_password="hush")
    )
    assert "hush" not in repr(options) and "token" not in repr(options)
