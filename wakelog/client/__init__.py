"""The RocketMQ client: routes, typed calls to brokers, and a producer that retries.

    options.py       addresses, group, timeouts, credentials: what every call needs
    errors.py        ClientError: broker, code, remark, cause and remedy
    route.py         name servers -> the queues of a topic, with the address of each broker
    broker_calls.py  pulls, offsets and searches, with retries
    messages.py      a message, and the packing of messages into requests
    producer.py      queue choice and retries of sends

Spark's remote reader, its sink and `wakelog hello` use it. It works with any RocketMQ 4.x.

Invariants: this package imports `network` and `protocol` only; it knows neither Spark nor Ray.
"""
