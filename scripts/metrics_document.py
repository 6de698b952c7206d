"""The texts and tables of docs/metrics.md, and the contract: every family on a line of its own.

`./dev docs` adds a new family to the contract and renews its text. It leaves the lines of families
that are gone or that have another type or other labels: a test fails until a person changes these,
by the policy that the document states.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from wakelog.actors.broker.client_rates import CLIENTS_MAX, PERIOD_MS
from wakelog.broker.queue_progress import QUEUES_MAX
from wakelog.broker.scrape_values import GROUPS_MAX
from wakelog.telemetry import exporter_names, v5_names
from wakelog.telemetry.collector import SERIES_MAX
from wakelog.telemetry.metric_spec import MetricSpec
from wakelog.telemetry.metrics import NAME_SETS

HEADS: Final = ("name", "type", "labels", "what")
OTHER_HEADS: Final = ("name", "type", "labels", "what", "read from")
LEFT_OUT_HEADS: Final = ("name", "why it is not here")

INTRODUCTION: Final = f"""\
`wakelog up` serves these at `/metrics`, on the port that it prints, in the text formats of
Prometheus; [deploy/prometheus.yml](../deploy/prometheus.yml) scrapes it and
[dashboards/](../dashboards/README.md) shows it. Values are read when a scrape asks, by the paths in
`wakelog/telemetry/`. What is not there (an actor that is away, a Supervisor without Ray) is not
exposed. Of the serving process there are also the `process_` metrics of prometheus-client.

Names of [rocketmq-exporter](#names-of-rocketmq-exporter) and of
[RocketMQ 5.x](#names-of-rocketmq-5x) are served, too, if `wakelog.metricsNames` says so.

## Bounds

A family has at most {SERIES_MAX:,} series in a scrape. `rocketmq_metrics_dropped_series_total`
counts what was left out, by family. Of queues, and of queues of groups, {QUEUES_MAX:,} each are
measured, and under other names the connections of {GROUPS_MAX:,} groups.
`rocketmq_queues_unmeasured` says how many were not. {CLIENTS_MAX} consumers are asked for their own
rates, every {PERIOD_MS // 1000} s at most, behind a scrape.

A broker with 1,000 topics of 8 queues and 50 groups that consume them all has 42,000 series under
all three sets of names: 5 MB, or 0.2 MB with gzip.
[What a scrape costs](../benchmarks/results/scrape.md).

## Formats

A client that accepts `application/openmetrics-text` gets OpenMetrics, and gzip if it accepts that.
There are no exemplars: a broker knows no trace id. Clients send their traces as messages of a trace
topic. To look for an id in the properties of each message would cost every send.

## How names change

[metrics_contract.txt](metrics_contract.txt) has every family with its type and labels. A test
holds that it is true.

- A family keeps its name, type, unit and labels from one release to the next. Its text may change.
- A label may come to a family only if its series stay as many as they were.
- A new name is served beside the old one for a release. The changelog names both.
- Families under names of elsewhere change when those do there.
- Boards and alerts of this repository change in the same commit."""

OTHER_NAMES: Final = """\
Boards and alerts that were made for rocketmq-exporter, or for a broker of 5.x, find their names
here. Only masters are shown, as there. The set is chosen at the start:

```sh not run: stays
wakelog up --local --set wakelog.metricsNames=native,exporter,v5
```

A name is in one set only, so all can be served at once. Each asks more of a scrape: where nothing
reads a set, leave it out. The column on the right says what a family is made of, below the
statistics of a broker. `runtime` are the values of code 28, `minute` what came in the last one."""

EXPORTER_INTRODUCTION: Final = """\
All are gauges, as there. Two differ in value: `rocketmq_brokeruntime_remain_howmanydata_toflush`
is in bytes, of which the exporter drops the unit. `rocketmq_broker_commitlog_diff` is of the
slowest slave, under its master's address. A scrape reads at once what the exporter asked for once a
minute."""

V5_INTRODUCTION: Final = """\
`message_type` is always `unspecified`. `topic` is empty in `rocketmq_send_to_dlq_messages_total`:
a dead letter has lost it. Commits and rollbacks are counted for all topics together."""

NAMES: Final = {"exporter": "rocketmq-exporter", "v5": "RocketMQ 5.x"}
INTRODUCTIONS: Final = {"exporter": EXPORTER_INTRODUCTION, "v5": V5_INTRODUCTION}

LEFT_OUT: Final[dict[str, Mapping[str, str]]] = {
    "exporter": exporter_names.LEFT_OUT,
    "v5": v5_names.LEFT_OUT,
}

CONTRACT: Final = "docs/metrics_contract.txt"


def cells(spec: MetricSpec) -> tuple[str, ...]:
    """Return the cells of one row."""
    labels = ", ".join(spec.labels) or "none"
    return (f"`{spec.exposed_name}`", spec.kind.value, labels, spec.help)


def other_cells(spec: MetricSpec) -> tuple[str, ...]:
    """Return the cells of a family under a name of elsewhere, with what it is read from."""
    source = "/".join(part for part in spec.sources[0][2:] if "=" not in part)
    return (*cells(spec), f"`{source}`")


def left_out_cells(name_set: str) -> Iterator[tuple[str, str]]:
    """Yield the families of a set that are not served."""
    for name, reason in LEFT_OUT[name_set].items():
        yield f"`{name}`", reason


def promise(set_name: str, spec: MetricSpec) -> str:
    """Return what a line of the contract says before its text."""
    return f"{set_name} {spec.kind.value} {spec.exposed_name}{{{', '.join(spec.labels)}}}"


def contract_document(kept: str) -> str:
    """Draw the contract. kept: as it is; what it promises and is not declared stays in it."""
    declared = {
        promise(set_name, spec): spec.help
        for set_name, specs in NAME_SETS.items()
        for spec in specs
    }
    lines = {line.partition("  ")[0]: line for line in kept.splitlines()}
    lines |= {text: f"{text}  {meaning}" for text, meaning in declared.items()}
    return "\n".join(lines[text] for text in sorted(lines)) + "\n"
