"""Until when a certificate is valid. It is imported where one is read: few connections have TLS."""

from cryptography import x509


def valid_until_ms(certificate: bytes) -> int:
    """Return until when a certificate is valid, 0 for bytes that are none. certificate: DER."""
    try:
        found = x509.load_der_x509_certificate(certificate)
        return round(found.not_valid_after_utc.timestamp() * 1000)
    except ValueError:
        return 0
