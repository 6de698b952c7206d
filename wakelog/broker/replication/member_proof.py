"""Both ends of a connection between members prove that they know a secret key.

    follower    a hello with a nonce
    master      an answer with a nonce of its own, and its proof
    follower    the same hello with its proof
    master      the answer: from here on the connection is as without proofs

A proof is the HMAC-SHA256 of the role's name, the master's nonce and the hello, under the secret
key of the account that `wakelog.accessKey` names at both ends. The hello has the other nonce, the
group and the replica's number. So no proof fits another connection, replica, group or role.

Rules:
- Nothing is believed before its proof: no promise is met, no epoch promised, nothing cut.
- An end with an access key and one without refuse each other. So does one whose account has gone.
- A connection has one try.

It does not encrypt. Whoever can change bytes on their way can change those after the proofs.

Source: none upstream; 4.9.3 and 5.x ask nothing of whoever connects.
"""

import hmac
from typing import Final, NamedTuple

from msgspec.structs import replace

from wakelog.broker.replication.ha_client_state import FetchEnded
from wakelog.protocol.member_frames import Answer, Hello, encode_hello

NONCE_BYTES: Final = 32

_MASTER: Final = b"wakelog member master\0"
_FOLLOWER: Final = b"wakelog member follower\0"


class ProofAccount(NamedTuple):
    """The account that `wakelog.accessKey` names. secret_key: None if the files have it no more."""

    access_key: str
    secret_key: str | None


class MasterProof:
    """The master's end of one connection. account: None without an access key.

    is_waiting: whether the follower was asked for a proof, and has given none yet, right or wrong.
    """

    def __init__(self, account: ProofAccount | None, nonce: bytes) -> None:
        """Wait for the hello. nonce: random, of this connection alone."""
        self._account, self._nonce = account, nonce
        self._asked: Hello | None = None
        self.is_waiting = False

    def take(self, hello: Hello) -> Answer | None:
        """Return what to answer instead of answering the hello; None if the follower has proved.

        An answer without a refusal asks for the same hello with a proof.
        """
        self.is_waiting = False
        account = self._account
        if account is None and not hello.nonce:
            return None
        if account is None:
            cause = "the follower wants a proof, and the master has no wakelog.accessKey"
        elif account.secret_key is None:
            cause = f"the master's files have no account {account.access_key}"
        elif len(hello.nonce) != NONCE_BYTES:
            cause = "the master wants a proof, and the follower has no wakelog.accessKey"
        elif self._asked is None:
            self._asked, self.is_waiting = replace(hello, proof=b""), True
            proof = _proof(account.secret_key, _MASTER, self._nonce, self._asked)
            return Answer("", 0, nonce=self._nonce, proof=proof)
        elif not self._is_proved(hello, self._asked, account.secret_key):
            cause = f"the follower does not know the secret key of {account.access_key}"
        else:
            return None
        return Answer(cause, 0)

    def _is_proved(self, hello: Hello, asked: Hello, secret_key: str) -> bool:
        expected = _proof(secret_key, _FOLLOWER, self._nonce, asked)
        is_right = hmac.compare_digest(hello.proof, expected)
        return is_right and replace(hello, proof=b"") == asked


class FollowerProof:
    """The follower's end of one connection. account: None without an access key."""

    def __init__(self, account: ProofAccount | None, nonce: bytes, hello: Hello) -> None:
        """Have said nothing. nonce: random, of this connection alone.

        hello: what is to be said.
        """
        self._account = account
        self._has_proved = False
        self.hello = hello if account is None else replace(hello, nonce=nonce)

    def take(self, answer: Answer) -> Hello | None:
        """Return the hello to say next; None if the answer is the master's last word.

        Raises: FetchEnded for a master that does not prove what it has to.
        """
        account = self._account
        if answer.refusal or account is None or self._has_proved:
            return None
        secret_key = account.secret_key
        if secret_key is None:
            cause = f"the follower's files have no account {account.access_key}"
            raise FetchEnded(cause, is_mismatch=True)
        expected = _proof(secret_key, _MASTER, answer.nonce, self.hello)
        if len(answer.nonce) != NONCE_BYTES or not hmac.compare_digest(answer.proof, expected):
            raise FetchEnded(
                f"the master does not prove that it knows the secret key of {account.access_key}",
                is_mismatch=True,
            )
        self._has_proved = True
        return replace(self.hello, proof=_proof(secret_key, _FOLLOWER, answer.nonce, self.hello))


def _proof(secret_key: str, role: bytes, nonce: bytes, hello: Hello) -> bytes:
    return hmac.digest(secret_key.encode(), role + nonce + encode_hello(hello), "sha256")
