"""Which tests cover which request code: those of its rules, and those that run beside 4.9.3.

docs/requests.md shows them. A test checks that each code is here once, and that the file of tests
has its number or its name.
"""

from collections.abc import Mapping
from typing import Final

RULES: Final[dict[str, tuple[int, ...]]] = {
    "broker/processors/test_send.py": (10, 310, 320),
    "broker/processors/test_pull.py": (11,),
    "broker/processors/test_query.py": (12, 33),
    "broker/processors/test_offsets.py": (14, 15, 29, 30, 31, 32, 43, 45, 314),
    "broker/processors/test_topics.py": (17, 21, 202, 215, 305, 306, 316, 351),
    "broker/processors/test_config.py": (25, 26),
    "broker/processors/test_statistics.py": (28, 315),
    "broker/processors/test_clients.py": (34, 35, 46, 301),
    "broker/processors/test_send_back.py": (36,),
    "broker/processors/test_transactions.py": (37, 323),
    "broker/processors/test_groups.py": (38, 200, 201, 203, 204, 207, 328, 352),
    "broker/test_half_checks.py": (39,),
    "broker/test_consumer_notices.py": (40,),
    "broker/processors/test_locks.py": (41, 42),
    "broker/processors/test_accounts.py": (50, 51, 52, 53, 54),
    "broker/processors/test_consume_stats.py": (208, 300, 303, 308, 317),
    "broker/processors/test_client_calls.py": (220, 221, 222, 223, 307, 309),
    "broker/processors/test_consume_queue.py": (321,),
    "broker/processors/test_reply.py": (324, 325, 326),
    "nameserver/test_processors.py": (
        *(100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 219, 224),
        *(304, 311, 312, 313, 318, 319, 322, 327),
    ),
    "test_requests_document.py": (13, 22, 23, 27, 209, 210, 211, 212, 213, 214, 302),
}
"""Codes by the file whose tests cover their rules."""

BESIDE_4_9_3: Final[dict[str, tuple[int, ...]]] = {
    "compat/test_broker_answers.py": (
        *(10, 11, 12, 14, 15, 17, 21, 25, 28, 29, 30, 31, 32, 33, 34, 35, 36, 38, 41, 42, 43),
        *(45, 46, 200, 201, 202, 203, 204, 207, 208, 215, 300, 301, 303, 305, 306, 308, 310),
        *(314, 315, 316, 317, 320, 321, 324, 325, 328, 351, 352),
        *(13, 22, 23, 27, 209, 210, 211, 212, 213, 214, 302),
    ),
    "compat/test_broker_config.py": (26,),
    "compat/test_transactions.py": (37, 39, 323),
    "compat/test_go_dialect.py": (40,),
    "compat/test_access_control.py": (50, 51, 52, 53, 54),
    "compat/test_asking.py": (220, 221, 222, 223, 307, 309, 326),
    "compat/test_name_servers.py": (
        *(100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 219, 224),
        *(304, 311, 312, 313, 318, 319, 322, 327),
    ),
}
"""Codes by the file whose tests compare them with 4.9.3."""


def by_code(tests: Mapping[str, tuple[int, ...]]) -> dict[int, str]:
    """Return the file of each code. Raises: ValueError if a code is in two."""
    found: dict[int, str] = {}
    for path, codes in tests.items():
        for code in codes:
            if code in found:
                raise ValueError(f"code {code} is in {found[code]} and in {path}")
            found[code] = path
    return found
