"""Who asks, as far as others see it."""

from wakelog.network.credentials import Credentials
from wakelog.spark.options import read_options


def test_secrets_are_not_shown() -> None:
    given = {"nameServer": "h:1", "accessKey": "who", "secretKey": "hush", "securityToken": "hsst"}
    read = read_options(given)
    assert read.remote is not None
    assert read.remote.credentials == Credentials("who", "hush", "hsst")
    assert "who" in repr(read) and "hush" not in repr(read) and "hsst" not in repr(read)
