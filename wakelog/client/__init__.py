"""The RocketMQ client: routes, typed calls to brokers, and a producer that retries.

`route` finds the queues of a topic, `broker_calls` reads from them, and `producer` sends to them.

Spark's remote reader, its sink and `wakelog hello` use it. It works with any RocketMQ 4.x.

Invariants: this package imports `network` and `protocol` only; it knows neither Spark nor Ray.
"""
