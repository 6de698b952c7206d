"""Every request code has a decision: what it needs of an account, and what each sender gets.

A new row of the request table has to be put into one of these sets.
"""

from typing import get_args, get_type_hints

import pytest

from tests.broker.access.requests import (
    ADMIN,
    FILE,
    HOST,
    UNKNOWN,
    WHITE_HOST,
    WRONG,
    access_control,
    signed,
)
from tests.broker.harness import subscription
from wakelog.broker.access.control import AccessRefused
from wakelog.broker.processors.table import PROCESSORS
from wakelog.network.signing import Credentials
from wakelog.protocol.bodies import ConsumerData, HeartbeatData, encode_body

POWERLESS = Credentials("no-permission", "low-secret")
ACCOUNTS = FILE + "- {accessKey: no-permission, secretKey: low-secret}\n"

NEED_PERMISSIONS = {10, 310, 36, 11, 12, 34, 35, 38, 15}
NEED_ADMIN = {
    *(17, 25, 200, 207, 215),
    *(50, 51, 52, 53, 222, 306, 309, 314, 316, 323),  # 4.9.3 asks for a signature only
}
NEED_A_SIGNATURE = {
    *(320, 33, 46, 14, 41, 42, 37, 324, 325),  # of clients; 4.9.3 checks no resource of them either
    *(21, 26, 28, 29, 30, 31, 32, 201, 202, 203, 204, 208, 223, 300, 301, 303, 304, 305),  # reads
    *(307, 308, 315, 317, 321, 54),
    *(43, 45),  # of slaves
}


def test_every_code_has_a_decision() -> None:
    decided = [*NEED_PERMISSIONS, *NEED_ADMIN, *NEED_A_SIGNATURE]
    assert len(decided) == len(set(decided))
    assert PROCESSORS.keys() <= set(decided)


def fields_of(code: int) -> dict[str, str]:
    """Return a header in which every field has a value."""
    header = PROCESSORS[code].header
    if header is None:
        return {}
    hints = get_type_hints(header)
    return {
        wire_name: "name" if str in (hints[name], *get_args(hints[name])) else "1"
        for name, wire_name in zip(
            header.__struct_fields__, header.__struct_encode_fields__, strict=True
        )
    }


def outcome(code: int, by: Credentials, host: str = HOST) -> str:
    """Return "passes" or the first words of the refusal."""
    consumers = [ConsumerData("g", subscription_data_set=[subscription("T")])]
    body = encode_body(HeartbeatData("c", [], consumers)) if code == 34 else b""
    try:
        command = signed(code, by, fields_of(code), body)
        access_control(ACCOUNTS).check(command, PROCESSORS[code], host)
    except AccessRefused as error:
        return " ".join(error.remark.partition(": ")[2].split()[:3])
    return "passes"


@pytest.mark.parametrize("code", sorted(PROCESSORS))
def test_what_each_sender_gets(code: int) -> None:
    assert outcome(code, Credentials()) == "No accessKey is"
    assert outcome(code, UNKNOWN) == "No acl config"
    assert outcome(code, WRONG) == "Check signature failed"
    assert outcome(code, ADMIN) == "passes"
    in_white_list = outcome(code, Credentials(), WHITE_HOST)
    assert in_white_list == ("Need admin permission" if code in (50, 51, 53) else "passes")
    expected = "passes"
    if code in NEED_ADMIN:
        expected = "Need admin permission"
    elif code in NEED_PERMISSIONS:
        expected = "No default permission"
    assert outcome(code, POWERLESS) == expected
