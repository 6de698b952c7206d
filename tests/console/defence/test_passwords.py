"""How passwords are kept and compared."""

import hashlib
import hmac

import pytest

from wakelog.console.defence import passwords
from wakelog.console.defence.passwords import check_kept, hashed, is_right


def test_a_hash_fits_its_password_alone() -> None:
    kept = hashed("s\u00e9cret")
    assert kept.startswith("scrypt$16384$8$5$") and "cret" not in kept
    assert kept != hashed("s\u00e9cret")
    check_kept(kept)
    assert is_right(kept, "s\u00e9cret")
    assert not any(is_right(kept, each) for each in ("secret", "", kept, "s\u00e9cret "))


@pytest.mark.parametrize("kept", ["secret", "s\u00e9cret", "scryptic$"])
def test_a_plain_password_is_itself(kept: str) -> None:
    check_kept(kept)
    assert is_right(kept, kept)
    assert not is_right(kept, kept[:-1]) and not is_right(kept, f"{kept}x")


def test_an_empty_password_is_never_right() -> None:
    assert not is_right("", "") and not is_right(hashed(""), "")


@pytest.mark.parametrize("kept", ["secret", hashed("secret")])
def test_comparing_goes_through_a_comparison_of_constant_time(
    kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for typed in ("secret", "", "s", "secret" * 100):
        is_right(kept, typed)
    assert compared == [(32, 32)] * 4


@pytest.mark.parametrize(
    "kept",
    [
        "scrypt$",
        "scrypt$16384$8$5$c2FsdA==",
        f"scrypt$16384$8$5$c2FsdA==${'A' * 44}",
        f"scrypt$16384$8$5${'A' * 24}$***",
        f"scrypt$16383$8$5${'A' * 24}${'A' * 44}",
        f"scrypt$1$8$5${'A' * 24}${'A' * 44}",
        f"scrypt$262144$8$1${'A' * 24}${'A' * 44}",
        f"scrypt$131072$16$1${'A' * 24}${'A' * 44}",
        f"scrypt$16384$17$1${'A' * 24}${'A' * 44}",
        f"scrypt$16384$8$0${'A' * 24}${'A' * 44}",
        f"scrypt$16384$8$\u0665${'A' * 24}${'A' * 44}",
    ],
)
def test_a_hash_that_cannot_be_compared_with_is_refused(kept: str) -> None:
    with pytest.raises(ValueError, match="scrypt"):
        check_kept(kept)


def test_the_dearest_line_that_is_let_in_can_be_compared_with() -> None:
    salt, digest = "A" * 22 + "==", "A" * 43 + "="
    kept = f"scrypt${passwords.COST_MAX}$8$1${salt}${digest}"
    check_kept(kept)
    assert not is_right(kept, "x")
    assert hashlib.scrypt(b"x", salt=bytes(16), n=2, r=1, p=1)
