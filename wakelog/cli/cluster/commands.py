"""What can be typed about a running cluster. Each command imports what it runs when it runs."""

import sys
from typing import Any, Literal

from wakelog.actors.errors import NotPossible
from wakelog.cli.options import (
    OUTPUT,
    Number,
    OutputForm,
    Pair,
    Text,
    argument,
    option,
    pairs,
    switch,
)
from wakelog.cli.root import program
from wakelog.cli.wire import Wire


def moment_ms(text: str) -> int:
    """Return the time that a text says, as `times.read_moment_ms` does. Raises: NotPossible."""
    from wakelog.cli.cluster.times import read_moment_ms
    from wakelog.client.clocks import wall_ms

    return read_moment_ms(text, wall_ms())


TOPIC = argument("TOPIC")
OF_TOPIC = option("NAME", "This topic alone.", "--topic")
GROUP = argument("GROUP")
SINCE = option(
    "TIME",
    "From then on: 10m, 2h, 2026-11-24T06:00, beginning, now.",
    "--since",
    parse=moment_ms,
    default=None,
)
LINES = option("N", "The last N messages, without --since.", minimum=0, maximum=100_000, default=10)
YES = switch("Do it; otherwise it is only shown.", "--yes")


@program.command()
def hello(
    wire: Wire,
    address: Text = argument("HOST:PORT", "As -n HOST:PORT."),
    topic: str = option("NAME", "Topic to send to; made if need be.", "--topic", default="hello"),
) -> None:
    """Send one message through a cluster and fetch it.

    \b
    wakelog hello
    wakelog hello 10.0.0.1:9876 --topic greetings
    """
    from wakelog.cli.cluster.hello import greet

    if address is not None:
        if wire.name_server is not None:
            raise NotPossible("the name server is given twice", "Give HOST:PORT or -n, not both.")
        wire = wire._replace(name_server=address)
    wire.run(lambda admin: greet(admin, topic))


@program.command()
def send(
    wire: Wire,
    topic: str = TOPIC,
    body: Text = argument("BODY", "Else each line of standard input."),
    tags: str = option("TAG", "What consumers filter by.", default=""),
    keys: str = option("KEYS", "By which it can be found; blanks between.", default=""),
    properties: list[Pair] | None = pairs("property", "One more property; repeat."),
    delay: Text = option("TIME", "Deliver after this time, as 10s or 5m."),
    sharding_key: str = option("KEY", "Messages with the same key stay in order.", default=""),
) -> None:
    """Send one message, or each line of standard input as one.

    \b
    wakelog send orders '{"id": 4711}' --tags paid --keys 4711
    wakelog send orders --delay 10s 'ten seconds later'
    generate | wakelog send orders
    """
    from datetime import timedelta

    from wakelog.cli.cluster.send import send_lines, send_one
    from wakelog.cli.cluster.times import read_span_ms
    from wakelog.client.messages import Message

    fields = {
        "tags": tags,
        "keys": keys,
        "properties": dict(properties or ()) or None,
        "delay": None if delay is None else timedelta(milliseconds=read_span_ms(delay)),
        "sharding_key": sharding_key,
    }
    if body is not None:
        message = Message(topic, body, **fields)  # type: ignore[arg-type]
        wire.run(lambda admin: send_one(admin, message))
    elif sys.stdin is None or sys.stdin.isatty():  # None if it is closed
        raise NotPossible("there is nothing to send", "Give a BODY, or lines on standard input.")
    else:
        send_lines(wire.options(), sys.stdin.buffer, topic, fields, as_json=wire.as_json)


@program.command()
def tail(
    wire: Wire,
    topic: str = TOPIC,
    filter: str = option("TAGS", "These tags alone, as 'paid || refunded'.", default="*"),
    sql: str = option("EXPRESSION", 'SQL92 over properties, as "amount > 5".', default=""),
    since_ms: Any = SINCE,
    lines: int = LINES,
    follow: bool = switch("Wait for new messages.", "--follow", "-f"),
) -> None:
    """Show messages of a topic in the order of their storage.

    \b
    wakelog tail orders --follow
    wakelog tail orders --since 10m --filter 'paid || refunded'
    wakelog tail orders --since beginning --sql "amount > 5" -o json
    """
    from wakelog.cli.cluster.tail import WantedTail
    from wakelog.cli.cluster.tail import tail as show_tail

    wanted = WantedTail(filter, sql, since_ms, lines, follow)
    wire.run(lambda admin: show_tail(admin, topic, wanted))


@program.command()
def topics(
    wire: Wire,
    topic: Text = argument("TOPIC"),
    shows_all: bool = switch("RocketMQ's own, retries and dead letters, too.", "--all"),
) -> None:
    """List topics, or the queues of one.

    \b
    wakelog topics
    wakelog topics orders
    """
    from wakelog.cli.cluster import topics as asked

    if topic is not None:
        wire.run(lambda admin: asked.queues(admin, topic))
    else:
        wire.run(lambda admin: asked.topics(admin, shows_all=shows_all))


@program.command()
def groups(wire: Wire, group: Text = argument("GROUP")) -> None:
    """List consumer groups, or clients and subscriptions of one.

    \b
    wakelog groups
    wakelog groups billing
    """
    from wakelog.cli.cluster import groups as asked

    if group is not None:
        wire.run(lambda admin: asked.group(admin, group))
    else:
        wire.run(asked.groups)


@program.command()
def lag(
    wire: Wire,
    group: str = GROUP,
    topic: Text = OF_TOPIC,
    lag_max: Number = option("N", "Exit with 1 if it lags by more.", "--max", minimum=0),
) -> None:
    """Show what a group has yet to consume, by queue.

    \b
    wakelog lag billing
    wakelog lag billing --topic orders --max 1000 || notify
    """
    from wakelog.cli.cluster import groups as asked

    wire.run(lambda admin: asked.lag(admin, group, topic, lag_max))


@program.command()
def reset(
    wire: Wire,
    group: str = GROUP,
    topic: str = TOPIC,
    to_ms: Any = option("TIME", "beginning, now, 2h, 2026-11-24T06:00.", "--to", parse=moment_ms),
    yes: bool = YES,
) -> None:
    """Let a group consume a topic from another place on.

    \b
    wakelog reset billing orders --to 2h
    wakelog reset billing orders --to beginning --yes
    """
    from wakelog.cli.cluster import groups as asked

    wire.run(lambda admin: asked.reset(admin, group, topic, to_ms, changes=yes))


@program.command()
def pause(wire: Wire, group: str = GROUP, yes: bool = YES) -> None:
    """Let a group consume nothing until `resume`; what comes waits.

    \b
    wakelog pause billing
    wakelog pause billing --yes
    """
    from wakelog.cli.cluster import groups as asked

    wire.run(lambda admin: asked.set_consuming(admin, group, is_allowed=False, changes=yes))


@program.command()
def resume(wire: Wire, group: str = GROUP, yes: bool = YES) -> None:
    """Let a group consume again, from where it was.

    \b
    wakelog resume billing
    wakelog resume billing --yes
    """
    from wakelog.cli.cluster import groups as asked

    wire.run(lambda admin: asked.set_consuming(admin, group, is_allowed=True, changes=yes))


@program.command()
def doctor(
    wire: Wire,
    topic: Text = OF_TOPIC,
    group: Text = option("NAME", "Look at this group, too.", "--group"),
) -> None:
    """Say why a client on this host cannot reach, write or consume.

    \b
    wakelog doctor
    wakelog doctor --topic orders --group billing
    """
    from wakelog.cli.cluster.doctor import doctor as examine

    wire.run(lambda admin: examine(admin, topic, group))


@program.command()
def findings(
    wire: Wire,
    seconds: float = option(
        "SECONDS", "Between two readings; 0 for one.", minimum=0, maximum=3600, default=6.0
    ),
) -> None:
    """Say what is wrong with a cluster, and what helps.

    It exits with 1 if there is a problem. What grows or stays is seen by two readings.

    \b
    wakelog findings
    wakelog findings --seconds 60 --output json
    """
    from wakelog.cli.cluster import findings as asked

    wire.run(lambda admin: asked.findings(admin, seconds))


@program.command()
def console(
    wire: Wire,
    port: int = option(
        "PORT", "Of its pages; 0 takes a free one.", "--port", minimum=0, default=8_080
    ),
    bind: str = option("IP", "Address to listen on.", "--bind", default="127.0.0.1"),
    hosts: list[str] | None = option(
        "NAME", "A further name that it is called by; repeat.", "--host"
    ),
    accounts: Text = option(
        "FILE", "Who may log in, as in plain_acl.yml; admin: true may change things."
    ),
    tls_cert: Text = option("FILE", "PEM of the certificate of its pages."),
    tls_key: Text = option("FILE", "PEM of that certificate's key."),
    audit: Text = option("FILE", "Gets a line of JSON for each action.", "--audit"),
    proxies: list[str] | None = option(
        "IP", "A proxy, or its network, that ends TLS and is believed; repeat.", "--behind-proxy"
    ),
    make_account: Text = option(
        "NAME", "Print a line for --accounts, with a hash, and end.", "--make-account"
    ),
    admin: bool = switch("That account may change things.", "--admin"),
) -> None:
    """Show a cluster in a browser: what is wrong, and what to do.

    \b
    wakelog console
    wakelog console --bind 0.0.0.0 --accounts who.yml --tls-cert cert.pem --tls-key key.pem
    wakelog console --accounts who.yml --behind-proxy 127.0.0.1 --host console.example
    wakelog console --make-account ops --admin >> who.yml
    """
    try:
        from wakelog.cli.cluster import console as shown
        from wakelog.console.serve import Listen
    except ModuleNotFoundError as error:
        cause = f"the console needs {error.name}, which is not installed"
        raise NotPossible(cause, "Install it: pip install 'wakelog[console]'.") from error

    if make_account is not None:
        print(shown.account_line(make_account, is_admin=admin))
        return
    certificate = tls_cert or "", tls_key or ""
    listen = Listen(bind, port, tuple(hosts or ()), *certificate, tuple(proxies or ()))
    known = shown.checked_accounts(listen, accounts)
    wire.run(lambda asks: shown.console(asks, listen, known, audit or ""))


@program.command()
def explain(code: str = argument("CODE"), output: OutputForm = OUTPUT) -> None:
    """Say what a request or response code means, and what to do.

    \b
    wakelog explain 17
    wakelog explain SYSTEM_BUSY
    """
    from wakelog.cli.cluster.codes import explain_code
    from wakelog.cli.output import show

    for each in explain_code(code):
        show(each, print, as_json=output == "json")


@program.command()
def status(wire: Wire) -> None:
    """List the brokers with their rates, disks and ages."""
    from wakelog.cli.cluster import status as asked

    wire.run(asked.status)


@program.command()
def top(
    wire: Wire,
    interval: float = option(
        "SECONDS", "Between two looks.", minimum=0.5, maximum=3600, default=2.0
    ),
) -> None:
    """Show brokers and groups again and again, until Ctrl-C."""
    from wakelog.cli.cluster import status as asked

    clears = sys.stdout.isatty() and not wire.as_json
    wire.run(lambda admin: asked.top(admin, interval, clears=clears))


@program.command()
def bench(
    wire: Wire,
    topic: str = TOPIC,
    mode: Literal["send", "consume", "both"] = option(
        "", "consume: what the topic has; both: with the time from end to end.", default="send"
    ),
    messages: int = option("N", "How many.", minimum=1, default=100_000),
    size: int = option("BYTES", "Of a body.", minimum=1, default=1_024),
    batch: int = option("N", "Messages of one call.", minimum=1, maximum=10_000, default=1),
    in_flight: int = option(
        "N", "Calls that wait at once.", minimum=1, maximum=10_000, default=256
    ),
    rate: float = option("N", "Messages a second; 0 for all that can be.", minimum=0, default=0.0),
) -> None:
    """Send to a topic, consume it, or both, and say how fast.

    \b
    wakelog bench speed
    wakelog bench speed --messages 2000 --in-flight 1
    wakelog bench speed --messages 500000 --batch 1000 --in-flight 4
    wakelog bench speed --mode both --rate 5000 --output json
    """
    from wakelog.cli.cluster.bench import Load, run_bench
    from wakelog.cli.output import show

    load = Load(topic, messages, size, batch, in_flight, rate)
    show(run_bench(wire.options(), load, mode), print, as_json=wire.as_json)


@program.command()
def check(
    wire: Wire, config: Text = option("FILE", "RocketMQ's broker.conf, not brokers.", "--config")
) -> None:
    """Say which keys of a broker.conf do nothing or are refused.

    Without a file it asks the brokers that run, and shows what waits for a restart.

    \b
    wakelog check --config broker.conf
    wakelog check --name-server 10.0.0.1:9876
    """
    from wakelog.cli.cluster.config_check import check_brokers, check_file
    from wakelog.cli.output import show

    if config is not None:
        check_file(config, lambda found: show(found, print, as_json=wire.as_json))
    else:
        wire.run(check_brokers)


dlq = program.group("dlq", "The messages that a group has given up.")


@dlq.command("ls")
def dlq_ls(wire: Wire) -> None:
    """List the groups that have dead letters."""
    from wakelog.cli.cluster import dead_letters

    wire.run(dead_letters.list_groups)


@dlq.command("show")
def dlq_show(wire: Wire, group: str = GROUP, since_ms: Any = SINCE, lines: int = LINES) -> None:
    """Show dead letters of a group, the oldest first."""
    from wakelog.cli.cluster import dead_letters

    wire.run(lambda admin: dead_letters.show(admin, group, since_ms, lines))


@dlq.command("export")
def dlq_export(wire: Wire, group: str = GROUP) -> None:
    """Write all dead letters of a group as JSON, an object a line.

    \b
    wakelog dlq export billing > billing.jsonl
    """
    from wakelog.cli.cluster import dead_letters

    wire._replace(output="json").run(lambda admin: dead_letters.show(admin, group, 0, 0))


@dlq.command("resend")
def dlq_resend(
    wire: Wire,
    group: str = GROUP,
    ids: list[str] | None = option("ID", "Of a message; repeat.", "--id"),
    sends_all: bool = switch("All dead letters of the group.", "--all"),
) -> None:
    """Let a group consume dead letters again.

    No other group gets them. They also stay where they are.

    \b
    wakelog dlq resend billing --id 7F000001000062F40000000000000000
    wakelog dlq resend billing --all
    """
    from wakelog.cli.cluster import dead_letters

    wanted = frozenset(ids or ())
    wire.run(lambda admin: dead_letters.resend(admin, group, wanted, sends_all=sends_all))


cluster = program.group("cluster", "The replicas of each broker.")


@cluster.command("status")
def cluster_status(
    wire: Wire,
    register: str = option(
        "URL", "Where groups decide who is master.  [default: by id 0]", "--register", default=""
    ),
    behind_max: Number = option("N", "Exit with 1 if one lacks more bytes.", "--max", minimum=0),
) -> None:
    """List the replicas of each broker, and how far each is behind.

    It exits with 1 if a replica does not answer, has more than its master or is not what the
    register says, and if a master takes no sends.

    \b
    wakelog cluster status
    wakelog cluster status --register etcd://a:2379,b:2379 --max 1000000
    """
    from wakelog.cli.cluster import replicas as asked

    wire.run(lambda admin: asked.status(admin, register, behind_max))


@cluster.command("failover")
def cluster_failover(
    wire: Wire,
    broker: str = argument("BROKER"),
    register: str = option("URL", "Where the group decides who is master.", "--register"),
    to: int | None = option("ID", "Of the next master; else the best follower.", "--to", minimum=1),
    accepts_loss: bool = switch("Lose what that replica lacks; any may be named.", "--accept-loss"),
    yes: bool = YES,
) -> None:
    """Give a broker's replicas another master.

    It waits until that one serves. Without --accept-loss the new master has to be in the in-sync
    set, and no acknowledged message is lost. Without --to it is the member that answers and whose
    log reaches furthest. In a register that has lost the group, --accept-loss founds it again.

    \b
    wakelog cluster failover broker-a --register etcd://a:2379,b:2379 --yes
    wakelog cluster failover broker-a --to 2 --register etcd://a:2379,b:2379 --yes
    wakelog cluster failover broker-a --to 3 --register file:///srv/register --accept-loss
    """
    from wakelog.cli.cluster import replicas as asked

    wire.run(
        lambda admin: asked.failover(
            admin, register, broker, to, accepts_loss=accepts_loss, changes=yes
        )
    )


@cluster.command("reseed")
def cluster_reseed(
    wire: Wire,
    store: str | None = option("DIR", "The replica's store.", "--store"),
    config: Text = option("FILE", "Its broker.conf, for other paths.", "--config"),
    yes: bool = YES,
) -> None:
    """Let a stopped replica begin again from its master.

    That is for one whose log was cut or does not fit. Run it on the replica's host. Its log is
    kept in wakelog.quarantine/ and not removed.

    \b
    wakelog cluster reseed --store /srv/store/broker-a-2
    wakelog cluster reseed --store /srv/store/broker-a-2 --yes
    """
    from wakelog.cli.cluster.reseed import reseed
    from wakelog.cli.log_operator import LogOperator
    from wakelog.cli.log_settings import store_config

    settings = store_config(store, config, ())
    operator = LogOperator(is_shown=not wire.as_json)
    wire.run(lambda admin: reseed(admin, settings, operator, changes=yes))
