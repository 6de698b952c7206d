"""Recording and alert rules for Prometheus, and their tests by promtool, as tables.

`./dev docs` writes dashboards/rules/. Each alert has the series of a fault at which it fires, and
none fires in an hour of `NORMAL` load. Summaries name labels only, so that tests need no value.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml

INTERVAL: Final = "15s"
"""Between two samples of a test."""

SAMPLES_COUNT: Final = 244
"""Of a test: an hour, and the minute before it."""

CRITICAL, WARNING = "critical", "warning"

OF_BROKER = {"job": "wakelog", "instance": "host:5557", "broker": "broker-a"}
OF_GROUP = {**OF_BROKER, "group": "g", "topic": "T"}
OF_DEPLOYMENT = {"job": "wakelog", "instance": "host:5557"}

LAG: Final = "wakelog:consumer_lag_messages"


class Recorded(NamedTuple):
    """A recording rule."""

    name: str
    expression: str


@dataclass(frozen=True, kw_only=True)
class Alert:
    """An alert rule, and the fault at which its test has it fire.

    wait: how long the expression has to be true. page: of docs/runbook. at: when the test expects
    the alert, with these labels. fault: values over time in promtool's notation, by series.
    """

    name: str
    severity: str
    wait: str
    expression: str
    summary: str
    page: str
    at: str
    labels: Mapping[str, str]
    fault: Mapping[str, str]


def series(metric: str, /, **labels: str) -> str:
    """Return a series of the broker of the tests."""
    return _named(metric, {**OF_BROKER, **labels})


def of_deployment(metric: str, /, **labels: str) -> str:
    """Return a series of the deployment of the tests."""
    return _named(metric, {**OF_DEPLOYMENT, **labels})


def _named(metric: str, labels: Mapping[str, str]) -> str:
    inner = ", ".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{metric}{{{inner}}}"


def steady(value: float) -> str:
    """Return the notation of a value that does not change."""
    return f"{value}x{SAMPLES_COUNT}"


def growing(step: float, begin: float = 0) -> str:
    """Return the notation of a value that grows by a step at each sample."""
    return f"{begin}+{step}x{SAMPLES_COUNT}"


RECORDED: Final = (
    Recorded(
        LAG, "sum by (job, instance, broker, group, topic) (rocketmq_consumer_queue_lag_messages)"
    ),
    Recorded(
        "wakelog:put_messages:rate5m",
        "sum by (job, instance, broker) (rate(rocketmq_store_put_messages_total[5m]))",
    ),
    Recorded(
        "wakelog:get_messages:rate5m",
        "sum by (job, instance, broker) (rate(rocketmq_store_get_messages_total[5m]))",
    ),
    Recorded(
        "wakelog:put_duration_seconds:p99_5m",
        "histogram_quantile(0.99, sum by (job, instance, broker, le) "
        "(rate(rocketmq_put_duration_seconds_bucket[5m])))",
    ),
)

_INFO: Final = {"cluster": "c", "name": "broker-a", "address": "10.0.0.1:10911"}
_DEAD: Final = 'rocketmq_topic_put_messages_total{topic=~"%DLQ%.*"}'
_OF_SAME: Final = "on (job, instance, broker)"

ALERTS: Final = (
    Alert(
        name="WakelogDown",
        severity=CRITICAL,
        wait="1m",
        expression='up{job="wakelog"} == 0',
        summary="{{ $labels.instance }} does not answer a scrape.",
        page="broker_lost",
        at="5m",
        labels=OF_DEPLOYMENT,
        fault={of_deployment("up"): steady(0)},
    ),
    Alert(
        name="WakelogBrokerRestarted",
        severity=WARNING,
        wait="0m",
        expression="increase(rocketmq_actor_restarts_total[15m]) > 0",
        summary="A broker or name server of {{ $labels.instance }} had died and was started again.",
        page="broker_lost",
        at="5m",
        labels=OF_DEPLOYMENT,
        fault={of_deployment("rocketmq_actor_restarts_total"): f"0x8 1x{SAMPLES_COUNT}"},
    ),
    Alert(
        name="WakelogNoMaster",
        severity=CRITICAL,
        wait="30s",
        expression=(
            "group by (job, cluster, name) (rocketmq_broker_info) unless on (job, cluster, name) "
            'rocketmq_broker_info{role="master"}'
        ),
        summary=(
            "{{ $labels.name }} of {{ $labels.cluster }} has no master: nothing can be sent to it."
        ),
        page="broker_lost",
        at="5m",
        labels={"job": "wakelog", "cluster": "c", "name": "broker-a"},
        fault={series("rocketmq_broker_info", **_INFO, role="slave"): steady(1)},
    ),
    Alert(
        name="WakelogRouteMissing",
        severity=CRITICAL,
        wait="1m",
        expression=(
            "count by (job, instance) (rocketmq_broker_info) "
            "> on (job, instance) rocketmq_nameserver_addresses"
        ),
        summary=(
            "The name server of {{ $labels.instance }} lacks a broker that runs: clients miss it."
        ),
        page="broker_lost",
        at="5m",
        labels=OF_DEPLOYMENT,
        fault={
            series("rocketmq_broker_info", **_INFO, role="master"): steady(1),
            of_deployment("rocketmq_nameserver_addresses"): steady(0),
        },
    ),
    Alert(
        name="WakelogRegistrationFails",
        severity=WARNING,
        wait="5m",
        expression="rate(rocketmq_registration_failures_total[2m]) > 0",
        summary="{{ $labels.broker }} cannot register: after 2 minutes its route is gone.",
        page="broker_lost",
        at="15m",
        labels=OF_BROKER,
        fault={series("rocketmq_registration_failures_total"): growing(1)},
    ),
    Alert(
        name="WakelogDiskNearlyFull",
        severity=WARNING,
        wait="5m",
        expression="max by (job, instance, broker) (rocketmq_disk_used_ratio) > 0.8",
        summary="The disk of {{ $labels.broker }} is over 80 % full: old messages go at any hour.",
        page="disk_full",
        at="15m",
        labels=OF_BROKER,
        fault={series("rocketmq_disk_used_ratio", path="commitlog"): steady(0.84)},
    ),
    Alert(
        name="WakelogDiskFull",
        severity=CRITICAL,
        wait="0m",
        expression="rocketmq_disk_full == 1",
        summary="The disk of {{ $labels.broker }} is too full: it refuses sends.",
        page="disk_full",
        at="5m",
        labels=OF_BROKER,
        fault={series("rocketmq_disk_full"): f"0x8 1x{SAMPLES_COUNT}"},
    ),
    Alert(
        name="WakelogFlushHangs",
        severity=CRITICAL,
        wait="1m",
        expression=(
            f"min_over_time(rocketmq_flush_lag_bytes[1m]) > 0 and {_OF_SAME} "
            'changes(rocketmq_watermark_offset_bytes{watermark="flushed"}[1m]) == 0'
        ),
        summary=(
            "{{ $labels.broker }} has messages that are not durable, and its disk does not sync."
        ),
        page="disk_hangs",
        at="5m",
        labels=OF_BROKER,
        fault={
            series("rocketmq_flush_lag_bytes"): growing(4096, 1),
            series("rocketmq_watermark_offset_bytes", watermark="flushed"): steady(8192),
        },
    ),
    Alert(
        name="WakelogFlushTooSlow",
        severity=WARNING,
        wait="0m",
        expression="increase(rocketmq_flush_waits_timed_out_total[5m]) > 0",
        summary="{{ $labels.broker }} answered sends with FLUSH_DISK_TIMEOUT.",
        page="disk_hangs",
        at="10m",
        labels=OF_BROKER,
        fault={series("rocketmq_flush_waits_timed_out_total"): f"0x24 5x{SAMPLES_COUNT}"},
    ),
    Alert(
        name="WakelogActorHangs",
        severity=CRITICAL,
        wait="1m",
        expression="rocketmq_actor_answers == 0",
        summary=(
            "{{ $labels.actor }} of {{ $labels.broker }} does not answer: it hangs, or is too busy."
        ),
        page="disk_hangs",
        at="5m",
        labels={**OF_BROKER, "actor": "broker"},
        fault={series("rocketmq_actor_answers", actor="broker"): steady(0)},
    ),
    Alert(
        name="WakelogStoreDamaged",
        severity=CRITICAL,
        wait="0m",
        expression="rocketmq_log_changed_blocks > 0 or rocketmq_dispatch_bad_stretches_total > 0",
        summary="The log of {{ $labels.broker }} is not what was written.",
        page="store_damaged",
        at="5m",
        labels=OF_BROKER,
        fault={series("rocketmq_log_changed_blocks"): f"0x8 1x{SAMPLES_COUNT}"},
    ),
    Alert(
        name="WakelogReplicaOutOfSync",
        severity=WARNING,
        wait="1m",
        expression=(
            f"rocketmq_in_sync_replicas < {_OF_SAME} max_over_time(rocketmq_in_sync_replicas[6h]) "
            f"and {_OF_SAME} rocketmq_leads == 1 "
            f"or rocketmq_in_sync_replicas < {_OF_SAME} rocketmq_members + 1 "
            f"and {_OF_SAME} rocketmq_leads == 1 "
            f"or rocketmq_slaves < {_OF_SAME} max_over_time(rocketmq_slaves[6h]) "
            f'or rocketmq_following == 0 and {_OF_SAME} rocketmq_broker_info{{role="slave"}}'
        ),
        summary="A replica of {{ $labels.broker }} is away, or has fallen out of sync.",
        page="replica_out_of_sync",
        at="10m",
        labels=OF_BROKER,
        fault={
            series("rocketmq_in_sync_replicas"): f"3x16 2x{SAMPLES_COUNT}",
            series("rocketmq_leads"): steady(1),
        },
    ),
    Alert(
        name="WakelogReplicaBehind",
        severity=WARNING,
        wait="5m",
        expression=(
            "rocketmq_member_behind_bytes > 6.7e+07 or rocketmq_slave_behind_bytes > 6.7e+07"
        ),
        summary="The slowest replica of {{ $labels.broker }} lacks over 64 MiB of the log.",
        page="replica_out_of_sync",
        at="15m",
        labels=OF_BROKER,
        fault={series("rocketmq_slave_behind_bytes"): growing(1e7)},
    ),
    Alert(
        name="WakelogLagGrows",
        severity=WARNING,
        wait="10m",
        expression=f"{LAG} > 1000 and deriv({LAG}[10m]) > 0",
        summary="{{ $labels.group }} falls further and further behind on {{ $labels.topic }}.",
        page="consumer_lags",
        at="30m",
        labels=OF_GROUP,
        fault={
            series("rocketmq_consumer_queue_lag_messages", group="g", topic="T", queue_id="0"): (
                growing(100)
            ),
            series("rocketmq_consumer_queue_lag_messages", group="g", topic="T", queue_id="1"): (
                steady(3)
            ),
        },
    ),
    Alert(
        name="WakelogOldestUnconsumed",
        severity=WARNING,
        wait="5m",
        expression="rocketmq_consumer_oldest_unacked_seconds > 900",
        summary=(
            "{{ $labels.group }} has not consumed a message of {{ $labels.topic }} for 15 minutes."
        ),
        page="consumer_lags",
        at="25m",
        labels=OF_GROUP,
        fault={
            series("rocketmq_consumer_oldest_unacked_seconds", group="g", topic="T"): growing(15),
        },
    ),
    Alert(
        name="WakelogDispatchBehind",
        severity=WARNING,
        wait="5m",
        expression="rocketmq_dispatch_lag_bytes > 2.6e+08",
        summary="{{ $labels.broker }} has over 256 MiB stored that {{ $labels.dispatcher }} lacks.",
        page="consumer_lags",
        at="20m",
        labels={**OF_BROKER, "dispatcher": "builtin"},
        fault={series("rocketmq_dispatch_lag_bytes", dispatcher="builtin"): growing(2e7)},
    ),
    Alert(
        name="WakelogDeadLetters",
        severity=WARNING,
        wait="0m",
        expression=(
            f"label_replace(increase({_DEAD}[10m]) > 0 or ({_DEAD} unless {_DEAD} offset 10m "
            f"and {_OF_SAME} rocketmq_topics offset 10m), "
            '"group", "$1", "topic", "%DLQ%(.*)")'
        ),
        summary="{{ $labels.group }} gave messages up.",
        page="dead_letters",
        at="15m",
        labels={**OF_BROKER, "topic": "%DLQ%g", "group": "g"},
        fault={
            series("rocketmq_topic_put_messages_total", topic="%DLQ%g"): f"_x48 1x{SAMPLES_COUNT}",
            series("rocketmq_topics"): steady(3),
        },
    ),
    Alert(
        name="WakelogCertificateExpires",
        severity=WARNING,
        wait="0m",
        expression="rocketmq_certificate_expiry_timestamp_seconds - time() < 14 * 86400",
        summary="The certificate of {{ $labels.broker }} is valid for less than 14 days.",
        page="certificate_expires",
        at="5m",
        labels={**OF_BROKER, "role": "broker"},
        fault={
            series("rocketmq_certificate_expiry_timestamp_seconds", role="broker"): steady(
                1_000_000
            )
        },
    ),
    Alert(
        name="WakelogServiceRefused",
        severity=CRITICAL,
        wait="1m",
        expression="rocketmq_actor_trouble == 1",
        summary="{{ $labels.actor }} of {{ $labels.broker }} does not work: {{ $labels.reason }}.",
        page="service_refused",
        at="5m",
        labels={**OF_BROKER, "actor": "schedule", "reason": "a bad file", "remedy": "Restore it"},
        fault={
            series(
                "rocketmq_actor_trouble", actor="schedule", reason="a bad file", remedy="Restore it"
            ): steady(1)
        },
    ),
    Alert(
        name="WakelogActorAway",
        severity=WARNING,
        wait="2m",
        expression="rocketmq_actor_attached == 0",
        summary="{{ $labels.actor }} has not worked for {{ $labels.broker }} for 2 minutes.",
        page="ray_node_gone",
        at="5m",
        labels={**OF_BROKER, "actor": "reput"},
        fault={series("rocketmq_actor_attached", actor="reput"): steady(0)},
    ),
)

NORMAL: Final[dict[str, str]] = {
    of_deployment("up"): steady(1),
    of_deployment("rocketmq_actor_restarts_total"): steady(0),
    of_deployment("rocketmq_nameserver_addresses"): steady(1),
    series("rocketmq_broker_info", **_INFO, role="master"): steady(1),
    series("rocketmq_registration_failures_total"): steady(0),
    series("rocketmq_store_put_messages_total"): growing(15_000),
    series("rocketmq_store_get_messages_total"): growing(15_000),
    series("rocketmq_disk_used_ratio", path="commitlog"): growing(0.0005, 0.5),
    series("rocketmq_disk_full"): steady(0),
    series("rocketmq_flush_lag_bytes"): f"0+4096x{SAMPLES_COUNT}",
    series("rocketmq_watermark_offset_bytes", watermark="flushed"): growing(3_000_000),
    series("rocketmq_flush_waits_timed_out_total"): steady(0),
    series("rocketmq_log_changed_blocks"): steady(0),
    series("rocketmq_dispatch_bad_stretches_total"): steady(0),
    series("rocketmq_in_sync_replicas"): steady(3),
    series("rocketmq_members"): steady(2),
    series("rocketmq_leads"): steady(1),
    series("rocketmq_slaves"): steady(1),
    series("rocketmq_following"): steady(0),
    series("rocketmq_member_behind_bytes"): steady(300_000),
    series("rocketmq_slave_behind_bytes"): steady(300_000),
    series("rocketmq_consumer_queue_lag_messages", group="g", topic="T", queue_id="0"): (
        " ".join(["900 400 1100 0"] * (SAMPLES_COUNT // 4))
    ),
    series("rocketmq_consumer_oldest_unacked_seconds", group="g", topic="T"): steady(2),
    series("rocketmq_dispatch_lag_bytes", dispatcher="builtin"): steady(8_000_000),
    series("rocketmq_topic_put_messages_total", topic="%DLQ%g"): steady(7),
    series("rocketmq_topic_put_messages_total", topic="T"): growing(15_000),
    series("rocketmq_topics"): steady(3),
    series("rocketmq_certificate_expiry_timestamp_seconds", role="broker"): steady(90 * 86_400),
    series("rocketmq_actor_trouble", actor="x", reason="x", remedy="x"): f"_x{SAMPLES_COUNT}",
    series("rocketmq_actor_attached", actor="reput"): steady(1),
    series("rocketmq_actor_answers", actor="broker"): steady(1),
    series("rocketmq_put_duration_seconds_bucket", le="0.01"): growing(15_000),
    series("rocketmq_put_duration_seconds_bucket", le="+Inf"): growing(15_000),
}
"""An hour of 1,000 messages a second: a lag that comes and goes, and old dead letters."""


def rules_document() -> str:
    """Draw dashboards/rules/wakelog.yml."""
    recorded = [{"record": one.name, "expr": one.expression} for one in RECORDED]
    groups = [
        {"name": "wakelog-recorded", "rules": recorded},
        {"name": "wakelog-alerts", "rules": [_alert_model(one) for one in ALERTS]},
    ]
    return _document({"groups": groups})


def _alert_model(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.wait,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook_url": page_path(alert.page)},
    }


def page_path(page: str) -> str:
    """Return where a page of the runbook is in the repository."""
    return f"docs/runbook/{page}.md"


def faults_document() -> str:
    """Draw dashboards/rules/tests/faults.yml: each alert fires at its fault."""
    return _test_document([_fires(alert) for alert in ALERTS])


def _fires(alert: Alert) -> dict[str, Any]:
    summary = re.sub(r"{{ \$labels\.(\w+) }}", lambda m: alert.labels[m[1]], alert.summary)
    expected = {
        "exp_labels": {**alert.labels, "severity": alert.severity},
        "exp_annotations": {"summary": summary, "runbook_url": page_path(alert.page)},
    }
    return {
        "name": alert.name,
        "interval": INTERVAL,
        "input_series": list(_inputs(alert.fault)),
        "alert_rule_test": [
            {"eval_time": alert.at, "alertname": alert.name, "exp_alerts": [expected]}
        ],
    }


def normal_document() -> str:
    """Draw dashboards/rules/tests/normal.yml: no alert fires in an hour of normal load."""
    # As Prometheus itself sees it: an alert that fires is a series, and here there never is one.
    fired = 'count_over_time(ALERTS{alertstate="firing"}[1h])'
    model = {
        "name": "an hour of normal load",
        "interval": INTERVAL,
        "input_series": list(_inputs(NORMAL)),
        "promql_expr_test": [{"expr": fired, "eval_time": "1h", "exp_samples": []}],
    }
    return _test_document([model])


def _inputs(values: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for one, text in values.items():
        yield {"series": one, "values": text}


def _test_document(tests: list[dict[str, Any]]) -> str:
    return _document(
        {"rule_files": ["../wakelog.yml"], "evaluation_interval": INTERVAL, "tests": tests}
    )


def _document(content: dict[str, Any]) -> str:
    notice = "# Drawn by `./dev docs` from scripts/alert_rules.py; change that instead.\n"
    text: str = yaml.safe_dump(content, sort_keys=False, width=100)
    return notice + text
