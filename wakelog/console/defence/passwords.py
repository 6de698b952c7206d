"""How a password is kept, and how one that is typed is compared with it.

    scrypt$N$R$P$SALT$HASH    by `wakelog console --make-account`; salt and hash in base64
    anything else             the password itself, as plain_acl.yml of 4.9.3 has it

Invariants: comparing takes as long for a wrong password as for a right one, of any length.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final, NamedTuple

SCHEME: Final = "scrypt"
COST: Final = 1 << 14
BLOCK: Final = 8
PARALLEL: Final = 5
"""16 MiB and some 0.2 s for each comparison."""
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32

COST_MAX: Final = 1 << 17
BLOCK_MAX: Final = 16
PARALLEL_MAX: Final = 16
MEMORY_BYTES_MAX: Final = 136 << 20
"""What a line of the file may ask for: N=2^17 with R=8."""

_COMPARED_KEY: Final = secrets.token_bytes(32)


class _Scrypt(NamedTuple):
    """What a hash was made with, and the hash."""

    cost: int
    block: int
    parallel: int
    salt: bytes
    hash: bytes

    def of(self, password: str) -> bytes:
        """Return the hash of another password, made alike."""
        return hashlib.scrypt(
            password.encode(errors="replace"),
            salt=self.salt,
            n=self.cost,
            r=self.block,
            p=self.parallel,
            maxmem=MEMORY_BYTES_MAX,
            dklen=len(self.hash),
        )


def hashed(password: str) -> str:
    """Return what a file keeps in the place of a password."""
    made = _Scrypt(COST, BLOCK, PARALLEL, secrets.token_bytes(SALT_BYTES), bytes(HASH_BYTES))
    texts = (base64.b64encode(x).decode() for x in (made.salt, made.of(password)))
    return "$".join((SCHEME, str(COST), str(BLOCK), str(PARALLEL), *texts))


def is_hashed(kept: str) -> bool:
    """Return whether a text stands for a hash, be it a good one or not."""
    return kept.startswith(f"{SCHEME}$")


def check_kept(kept: str) -> None:
    """Raises: ValueError for a hash that cannot be compared with."""
    if is_hashed(kept):
        _read(kept)


def is_right(kept: str, password: str) -> bool:
    """Return whether a password is the one that is kept; an empty one never is.

    It takes some 0.2 s of a thread for a hash.
    """
    if is_hashed(kept):
        made = _read(kept)
        return hmac.compare_digest(made.of(password), made.hash) and bool(password)
    digests = (
        hmac.digest(_COMPARED_KEY, x.encode(errors="replace"), "sha256") for x in (kept, password)
    )
    return hmac.compare_digest(*digests) and bool(password)


def _read(kept: str) -> _Scrypt:
    """Raises: ValueError."""
    parts = kept.split("$")
    if len(parts) != 6 or not all(x.isascii() and x.isdigit() and len(x) < 9 for x in parts[1:4]):
        raise ValueError("a hash has the form scrypt$N$R$P$SALT$HASH")
    cost, block, parallel = map(int, parts[1:4])
    try:
        salt, digest = (base64.b64decode(x, validate=True) for x in parts[4:])
    except binascii.Error:
        raise ValueError("salt and hash of scrypt$N$R$P$SALT$HASH are in base64") from None
    if not (1 < cost <= COST_MAX and not cost & (cost - 1)):
        raise ValueError(f"N of scrypt is a power of 2, {COST_MAX:,} at most")
    if not (1 <= block <= BLOCK_MAX and 1 <= parallel <= PARALLEL_MAX):
        raise ValueError(f"R and P of scrypt are from 1 to {BLOCK_MAX} and {PARALLEL_MAX}")
    if 128 * block * (cost + parallel + 2) > MEMORY_BYTES_MAX:
        raise ValueError(f"N and R of scrypt need more than {MEMORY_BYTES_MAX >> 20} MiB")
    if len(salt) < SALT_BYTES or not HASH_BYTES <= len(digest) <= 2 * HASH_BYTES:
        raise ValueError(f"salt and hash of scrypt have {SALT_BYTES} and {HASH_BYTES} bytes")
    return _Scrypt(cost, block, parallel, salt, digest)
