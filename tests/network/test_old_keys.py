"""Keys whose encryption OpenSSL 3 does not know."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from wakelog.network.old_keys import encrypted_again

FILES = Path(__file__).parent / "certificates"
OLD = (FILES / "server_rc4.key").read_bytes()


def test_the_key_is_the_same_under_another_password() -> None:
    key = load_pem_private_key(encrypted_again(OLD, "hush", "new"), b"new")
    plain = load_pem_private_key((FILES / "server.key").read_bytes(), None)
    assert key.public_key() == plain.public_key()


@pytest.mark.parametrize(
    ("pem", "password"),
    [(OLD, "other"), (b"no key", "hush"), ((FILES / "server.key").read_bytes(), "hush")],
)
def test_what_is_no_such_key_is_refused(pem: bytes, password: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        encrypted_again(pem, password, "new")
