"""Private keys in encryptions that OpenSSL 3 reads only with its provider of old algorithms.

Source: RocketMQ's documentation of TLS, `openssl pkcs8 -topk8 -v1 PBE-SHA1-RC4-128`.
"""

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)


def encrypted_again(pem: bytes, password: str, new_password: str) -> bytes:
    """Return a key, encrypted with a new password as OpenSSL 3 reads it. Raises: ValueError."""
    try:
        key = load_pem_private_key(pem, password.encode())
    except (TypeError, UnsupportedAlgorithm) as error:  # TypeError: it is not encrypted
        raise ValueError(str(error)) from error
    encryption = BestAvailableEncryption(new_password.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
