"""Until when a certificate is valid. It is imported where one is read: few connections have TLS."""

from pathlib import Path

from cryptography import x509


def valid_until_ms(certificate: bytes) -> int:
    """Return until when a certificate is valid, 0 for bytes that are none. certificate: DER."""
    try:
        return _end_ms(x509.load_der_x509_certificate(certificate))
    except ValueError:
        return 0


def file_valid_until_ms(path: str) -> int:
    """Return until when all certificates of a PEM file are valid, 0 if it has none to read."""
    try:
        found = x509.load_pem_x509_certificates(Path(path).read_bytes())
    except (OSError, ValueError):
        return 0
    return min(map(_end_ms, found), default=0)


def _end_ms(certificate: x509.Certificate) -> int:
    return round(certificate.not_valid_after_utc.timestamp() * 1000)
