"""Celery and kombu over RocketMQ: importing this registers the scheme `rocketmq` with kombu.

    import wakelog.celery
    app = Celery(broker="rocketmq://127.0.0.1:9876")

Read in this order:

    options.py      a URL and transport options -> where to connect, and how
    payload.py      kombu's message -> the body of a RocketMQ message, and back
    routes.py       which topics an exchange and a routing key lead to, and which a queue reads
    link.py         one connection: a sender and the readers of its queues
    channel.py      kombu's channel: queues, bindings, acknowledgements
    transport.py    kombu's transport: connections, events, errors

The extra `celery` installs what it needs. Celery itself is not imported.
"""

from kombu.transport import TRANSPORT_ALIASES

TRANSPORT_ALIASES["rocketmq"] = "wakelog.celery.transport:Transport"
