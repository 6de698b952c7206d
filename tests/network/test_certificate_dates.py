"""Until when a certificate is valid."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from wakelog.network.certificate_dates import valid_until_ms

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_certificate_says_until_when_it_is_valid() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    end = BEGIN + timedelta(days=30)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), BEGIN, end
    ).sign(key, hashes.SHA256())
    encoded = made.public_bytes(serialization.Encoding.DER)
    assert valid_until_ms(encoded) == end.timestamp() * 1000
    assert valid_until_ms(encoded[:40]) == valid_until_ms(b"") == 0
