"""Both ends prove that they know the secret key, and whoever cannot is refused."""

from itertools import product

import pytest
from msgspec.structs import replace

from wakelog.broker.replication.ha_client_state import FetchEnded
from wakelog.broker.replication.member_proof import (
    NONCE_BYTES,
    FollowerProof,
    MasterProof,
    ProofAccount,
)
from wakelog.protocol.member_frames import Answer, Hello

HELLO = Hello("group", 2, bytes(16), 4, 1 << 20, 0, 77, ((1, 0), (4, 50)))
ACCOUNT = ProofAccount("replica-key", "replica-secret")
NONCES = b"m" * NONCE_BYTES, b"f" * NONCE_BYTES


def ends(
    master: ProofAccount | None, follower: ProofAccount | None
) -> tuple[MasterProof, FollowerProof]:
    return MasterProof(master, NONCES[0]), FollowerProof(follower, NONCES[1], HELLO)


def refusal(answer: Answer | None) -> str:
    return "" if answer is None else answer.refusal


def test_both_prove_and_then_the_hello_is_answered() -> None:
    master, follower = ends(ACCOUNT, ACCOUNT)
    asked = master.take(follower.hello)
    assert asked is not None and not asked.refusal and master.is_waiting
    proved = follower.take(asked)
    assert proved is not None and replace(proved, nonce=b"", proof=b"") == HELLO
    assert b"replica-secret" not in proved.proof + asked.proof
    assert master.take(proved) is None and not master.is_waiting
    assert follower.take(Answer("", 5)) is None


def test_without_keys_nothing_is_asked() -> None:
    master, follower = ends(None, None)
    assert follower.hello == HELLO and master.take(HELLO) is None
    assert follower.take(Answer("", 5)) is None


@pytest.mark.parametrize(
    ("there", "here", "said"),
    [
        (ACCOUNT, None, "the follower has no wakelog.accessKey"),
        (None, ACCOUNT, "the master has no wakelog.accessKey"),
        (ProofAccount("gone-key", None), ACCOUNT, "the master's files have no account gone-key"),
    ],
)
def test_an_end_with_a_key_and_one_without_refuse_each_other(
    there: ProofAccount | None, here: ProofAccount | None, said: str
) -> None:
    master, follower = ends(there, here)
    assert said in refusal(master.take(follower.hello))


def test_a_follower_whose_account_has_gone_says_so() -> None:
    master, follower = ends(ACCOUNT, ProofAccount("replica-key", None))
    asked = master.take(follower.hello)
    assert asked is not None
    with pytest.raises(FetchEnded, match="follower's files have no account replica-key"):
        follower.take(asked)


@pytest.mark.parametrize("other", ["other-secret", "replica-secret "])
def test_a_follower_with_another_secret_is_refused(other: str) -> None:
    _, impostor = ends(None, ACCOUNT._replace(secret_key=other))
    master, follower = ends(ACCOUNT, ACCOUNT)
    asked = master.take(follower.hello)
    assert asked is not None
    with pytest.raises(FetchEnded, match="master does not prove"):
        impostor.take(asked)
    for proof in (b"", bytes(32), asked.proof):  # nothing, a guess, the master's own
        master = MasterProof(ACCOUNT, NONCES[0])
        master.take(follower.hello)
        assert "does not know the secret key" in refusal(
            master.take(replace(follower.hello, proof=proof))
        )


@pytest.mark.parametrize("change", [{"replica": 3}, {"group": "other"}, {"promise": 9}])
def test_a_proof_is_of_its_hello(change: dict[str, object]) -> None:
    master, follower = ends(ACCOUNT, ACCOUNT)
    asked = master.take(follower.hello)
    proved = follower.take(asked) if asked is not None else None
    assert proved is not None
    assert "does not know" in refusal(master.take(replace(proved, **change)))


def test_a_recorded_proof_fits_no_other_connection() -> None:
    master, follower = ends(ACCOUNT, ACCOUNT)
    asked = master.take(follower.hello)
    proved = follower.take(asked) if asked is not None else None
    assert asked is not None and proved is not None
    later = MasterProof(ACCOUNT, b"n" * NONCE_BYTES)
    assert later.take(proved) is not None  # it is asked like any other
    assert "does not know" in refusal(later.take(proved))
    again = FollowerProof(ACCOUNT, b"g" * NONCE_BYTES, HELLO)
    with pytest.raises(FetchEnded, match="does not prove"):
        again.take(asked)


@pytest.mark.parametrize(("nonce", "proof"), list(product([b"", b"m" * 5], [b"", bytes(32)])))
def test_a_master_without_a_proof_is_not_followed(nonce: bytes, proof: bytes) -> None:
    _, follower = ends(ACCOUNT, ACCOUNT)
    with pytest.raises(FetchEnded, match="does not prove"):
        follower.take(Answer("", 5, nonce=nonce, proof=proof))
    assert follower.take(Answer("another log", 5)) is None  # a refusal is no word to believe
