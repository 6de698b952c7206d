"""Who asks, for brokers with access control: an option's value, and light to import as options are.

Source: org.apache.rocketmq.acl.common.SessionCredentials (4.9.3).
"""

from __future__ import annotations

from typing import NamedTuple


class Credentials(NamedTuple):
    """Without an access key nothing is signed."""

    access_key: str = ""
    secret_key: str = ""
    security_token: str = ""

    def __repr__(self) -> str:
        """Leave out what is secret: options are shown in errors and logs."""
        return f"Credentials({self.access_key!r})"
