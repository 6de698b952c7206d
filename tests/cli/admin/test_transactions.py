"""Commands about half messages, against a running cluster."""

import pytest

from tests.cli.admin.conftest import SIGNED, AdminCommand
from wakelog.client.errors import ClientError

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_what_is_no_half_message_is_not_checked_again(admin: AdminCommand) -> None:
    topic = admin.create("no_half_messages")
    admin(f"sendMessage -t {topic} -p body")
    [sent] = admin.json(f"consumeMessage -t {topic} -c 1")[-1:]
    with pytest.raises(ClientError, match="RESUME_CHECK_HALF_MESSAGE"):
        admin(f"resumeCheckHalfMessage -i {sent['offsetMsgId']}", *SIGNED)


def test_an_id_that_names_no_message_is_refused(admin: AdminCommand) -> None:
    with pytest.raises(ClientError, match="malformed message id"):
        admin("resumeCheckHalfMessage -i nothing", *SIGNED)
