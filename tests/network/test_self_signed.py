"""A certificate of make_pem is its own signer, and no two are alike."""

from cryptography import x509

from wakelog.network.self_signed import NOT_AFTER, make_pem


def test_a_certificate_signs_itself_and_differs_each_time() -> None:
    first, second = (x509.load_pem_x509_certificate(make_pem()) for _ in range(2))
    first.verify_directly_issued_by(first)
    assert first.not_valid_after_utc == NOT_AFTER
    assert first.serial_number != second.serial_number
    assert first.public_key() != second.public_key()
