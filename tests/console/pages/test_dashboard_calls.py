"""What rocketmq-dashboard 1.0 to 2.1 has, this console has: each of its calls, by name.

The calls are those of its controllers (org.apache.rocketmq.dashboard.controller). `docs/console.md`
has the same as a table for people.
"""

import re
from pathlib import Path

import pytest

from wakelog.cli.admin.command import mqadmin
from wakelog.console.actions.table import ACTIONS
from wakelog.console.pages.app import page_at

DOCUMENT = Path(__file__).parents[3] / "docs" / "console.md"

HERE = {
    # pages of its router
    "/": "/",
    "/cluster": "/brokers",
    "/topic": "/topics",
    "/consumer": "/groups",
    "/producer": "/producers",
    "/message": "/messages",
    "/dlqMessage": "/dead-letters",
    "/messageTrace": "/trace",
    "/acl": "/access",
    "/login": "/login",
    # clusters and brokers
    "/cluster/list.query": "/brokers",
    "/cluster/brokerConfig.query": "/brokers/broker-a?tab=configuration",
    "/dashboard/broker.query": "/",
    "/dashboard/topic.query": "/topics",
    "/dashboard/topicCurrent.query": "/topics/T",
    "/rocketmq/nsaddr.query": "/name-servers",
    # topics
    "/topic/list.query": "/topics",
    "/topic/queryTopicType.query": "/topics?all=1",
    "/topic/listTopicType.query": "/topics?all=1",
    "/topic/stats.query": "/topics/T?tab=queues",
    "/topic/route.query": "/topics/T?tab=configuration",
    "/topic/createOrUpdate.do": "/do/create-topic /do/change-topic /do/change-permission",
    "/topic/queryConsumerByTopic.query": "/topics/T?tab=groups",
    "/topic/queryTopicConsumerInfo.query": "/topics/T?tab=groups",
    "/topic/examineTopicConfig.query": "/topics/T?tab=configuration",
    "/topic/sendTopicMessage.do": "/do/send-message",
    "/topic/deleteTopic.do": "/do/delete-topic",
    # groups
    "/consumer/groupList.query": "/groups",
    "/consumer/group.query": "/groups/G",
    "/consumer/group.refresh": "/groups/G",
    "/consumer/group.refresh.all": "/groups",
    "/consumer/resetOffset.do": "/do/reset-offsets",
    "/consumer/skipAccumulate.do": "/do/skip-messages",
    "/consumer/examineSubscriptionGroupConfig.query": "/groups/G?tab=configuration",
    "/consumer/deleteSubGroup.do": "/do/delete-group",
    "/consumer/createOrUpdate.do": "/do/create-group /do/change-group",
    "/consumer/fetchBrokerNameList.query": "/groups/G?tab=configuration",
    "/consumer/queryTopicByConsumer.query": "/groups/G?tab=queues",
    "/consumer/consumerConnection.query": "/groups/G?tab=members",
    "/consumer/consumerRunningInfo.query": "/groups/G/members/C?stacks=1",
    # producers
    "/producer/producerConnection.query": "/producers",
    # messages and traces
    "/message/viewMessage.query": "/messages/ID",
    "/message/queryMessagePageByTopic.query": "/topics/T/messages",
    "/message/queryMessageByTopicAndKey.query": "/messages?topic=T&key=K",
    "/message/queryMessageByTopic.query": "/topics/T/messages",
    "/message/consumeMessageDirectly.do": "/do/consume-message",
    "/messageTrace/viewMessage.query": "/messages/ID",
    "/messageTrace/viewMessageTraceDetail.query": "/trace",
    "/messageTrace/viewMessageTraceGraph.query": "/trace",
    # dead letters
    "/dlqMessage/queryDlqMessageByConsumerGroup.query": "/dead-letters/G",
    "/dlqMessage/batchResendDlqMessage.do": "/do/resend-dead-letters",
    "/dlqMessage/exportDlqMessage.do": "/topics/T/messages/export",
    "/dlqMessage/batchExportDlqMessage.do": "/topics/T/messages/export",
    # access control
    "/acl/enable.query": "/access",
    "/acl/config.query": "/access",
    "/acl/add.do": "/do/create-account",
    "/acl/update.do": "/do/change-account",
    "/acl/delete.do": "/do/delete-account",
    "/acl/sync.do": "/do/change-account",
    "/acl/white/list/add.do": "/do/change-white-addresses",
    "/acl/white/list/update.do": "/do/change-white-addresses",
    "/acl/white/list/delete.do": "/do/change-white-addresses",
    "/login/check.query": "/login",
    "/login/login.do": "/login",
    "/login/logout.do": "/logout",
}
"""Of each call the pages and actions here, with blanks between."""

ABSENT = {
    "/topic/deleteTopicByBroker.do": "mqadmin and `wakelog admin deleteTopic` delete at a cluster",
    "/proxy": "a proxy is of RocketMQ 5",
    "/ops": "`wakelog console -n`, `--tls`: a console has one cluster",
    "/ops/homePage.query": "`wakelog console -n`",
    "/ops/updateNameSvrAddr.do": "`wakelog console -n`",
    "/ops/addNameSvrAddr.do": "`wakelog console -n`",
    "/ops/updateIsVIPChannel.do": "no client of wakelog uses the second port of brokers",
    "/ops/rocketMqStatus.query": "the first page says what is wrong",
    "/ops/updateUseTLS.do": "`wakelog console --tls`",
    "/rocketmq-dashboard/csrf-token": "each form has its own",
    "/monitor/createOrUpdateConsumerMonitor.do": "the first page watches all groups",
    "/monitor/consumerMonitorConfig.query": "the first page watches all groups",
    "/monitor/consumerMonitorConfigByGroupName.query": "the first page watches all groups",
    "/monitor/deleteConsumerMonitor.do": "the first page watches all groups",
}
"""Calls without a page here, and what there is in their place."""

NAMES = {"T": "orders", "G": "billing", "C": "10.0.0.7@1", "ID": "7F" * 16, "K": "4711"}


def is_here(link: str) -> bool:
    """Return whether the console has a page or an action of this path."""
    path = "/".join(NAMES.get(part, part) for part in link.partition("?")[0].split("/"))
    row, parts = page_at(path)
    if row is None:
        return False
    return parts["name"] in ACTIONS if row.path == "/do/{name}" else True


@pytest.mark.parametrize("call", HERE)
def test_what_the_dashboard_calls_is_found_here(call: str) -> None:
    assert [link for link in HERE[call].split() if not is_here(link)] == []


def test_a_path_that_is_not_there_would_be_noticed() -> None:
    assert not is_here("/do/fly")
    assert not is_here("/nowhere")


def test_no_call_is_both_here_and_absent() -> None:
    assert not HERE.keys() & ABSENT.keys()
    assert all(ABSENT.values())


def test_commands_in_the_place_of_a_page_are_there() -> None:
    named = {name for text in ABSENT.values() for name in re.findall(r"wakelog admin (\w+)", text)}
    assert named and named <= mqadmin.members.keys()


def test_the_document_names_pages_of_here_for_each_of_the_dashboard() -> None:
    text = DOCUMENT.read_text()
    section = text.partition("## Come from rocketmq-dashboard\n")[2].partition("\n## ")[0]
    links = re.findall(r"`(/[^`]*)`", section)
    named = {link.partition("?")[0] for link in links}
    assert [link for link in links if not is_here(link)] == []
    wanted = {link.partition("?")[0] for links in HERE.values() for link in links.split()}
    assert {x for x in wanted if x.startswith("/do/")} <= named
