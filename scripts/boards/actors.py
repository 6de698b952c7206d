"""Actors: what crosses between them, which are away, and what was started again."""

from scripts.boards.grafana import (
    COUNT,
    OF_BROKER,
    OF_INSTANCE,
    REQUESTS_PER_SECOND,
    Board,
    graph,
    rate,
    summed,
)

LINKS = (
    graph(
        "References",
        "Object references that crossed between actors in a second, by what they were for.",
        REQUESTS_PER_SECOND,
        (f"sum by (kind) ({rate('rocketmq_actor_references_total')})", "{{kind}}"),
    ),
    graph(
        "Notifications",
        "Notifications that brokers sent in a second, by outcome. None with references only.",
        REQUESTS_PER_SECOND,
        (f"sum by (outcome) ({rate('rocketmq_actor_notifications_total')})", "{{outcome}}"),
    ),
    graph(
        "Attaches",
        "How often an actor began to work for its broker. Each step is a restart of one of them.",
        COUNT,
        (
            f"sum by (broker, actor) (rocketmq_actor_attaches_total{{{OF_BROKER}}})",
            "{{broker}} {{actor}}",
        ),
    ),
    graph(
        "Routes",
        "Registrations in a second that a name server took, and that it did not take.",
        REQUESTS_PER_SECOND,
        summed("rocketmq_registrations_total", "taken"),
        summed("rocketmq_registration_failures_total", "failed"),
    ),
    graph(
        "Tables",
        "Files of consumer offsets, topics and groups written in a second, or not written.",
        COUNT,
        summed("rocketmq_table_saves_total", "written"),
        summed("rocketmq_table_save_failures_total", "failed"),
    ),
    graph(
        "Trouble",
        "Parts of a broker that do not do their work, and why.",
        COUNT,
        (
            f"max by (broker, actor, reason) (rocketmq_actor_trouble{{{OF_BROKER}}})",
            "{{broker}} {{actor}}: {{reason}}",
        ),
    ),
    graph(
        "Started again",
        "Processes that had died, and that hung and were killed, in a second.",
        REQUESTS_PER_SECOND,
        (f"sum({rate('rocketmq_actor_restarts_total', OF_INSTANCE)})", "died"),
        (f"sum({rate('rocketmq_actor_kills_total', OF_INSTANCE)})", "hung"),
    ),
    graph(
        "Plug-ins",
        "Batches given to added dispatchers, and failures of them and of services, in a second.",
        REQUESTS_PER_SECOND,
        (
            f"sum by (broker, dispatcher) ({rate('rocketmq_plugin_batches_total')})",
            "{{broker}} {{dispatcher}}",
        ),
        (
            f"sum by (broker, dispatcher) ({rate('rocketmq_plugin_failures_total')})",
            "{{broker}} {{dispatcher}} failed",
        ),
        (
            f"sum by (broker, service) ({rate('rocketmq_service_failures_total')})",
            "{{broker}} {{service}} failed",
        ),
    ),
)

WORK = (
    graph(
        "Attached",
        "Actors that work for their broker: 1 each.",
        COUNT,
        (
            f"min by (broker, actor) (rocketmq_actor_attached{{{OF_BROKER}}})",
            "{{broker}} {{actor}}",
        ),
    ),
    graph(
        "Answers",
        "Actors that gave their numbers in time: 1 each. With Ray only.",
        COUNT,
        (
            f"min by (broker, actor) (rocketmq_actor_answers{{{OF_BROKER}}})",
            "{{broker}} {{actor}}",
        ),
    ),
    graph(
        "Pool",
        "Requests given to the pool of threads in a second.",
        REQUESTS_PER_SECOND,
        summed("rocketmq_pool_requests_total"),
    ),
    graph(
        "Name server",
        "Requests to the name server in a second, by their code.",
        REQUESTS_PER_SECOND,
        (
            f"sum by (code) ({rate('rocketmq_nameserver_requests_by_code_total', OF_INSTANCE)})",
            "{{code}}",
        ),
    ),
    graph(
        "Left the route",
        "Broker addresses that left the route in a second, by cause.",
        REQUESTS_PER_SECOND,
        (
            f"sum by (cause) ({rate('rocketmq_nameserver_addresses_left_total', OF_INSTANCE)})",
            "{{cause}}",
        ),
    ),
)

BOARD = Board(name="actors", title="wakelog actors", sections={"Actors": LINKS, "Work": WORK})
