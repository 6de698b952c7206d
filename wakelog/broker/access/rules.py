"""What requests of a broker need, beside ANYONE and ADMINISTERS: the rules of its request table.

Source: org.apache.rocketmq.acl.plain.PlainAccessValidator.parse (4.9.3).
"""

from wakelog.network.request import Access, Permission, Resource

PUBLISHES = Access(Permission.PUB, Resource.TOPIC, "topic")
PUBLISHES_AGAIN = Access(Permission.PUB, Resource.TOPIC, "origin_topic")
RETRIES = Access(Permission.SUB, Resource.GROUP, "group")
SUBSCRIBES = Access(Permission.SUB, Resource.TOPIC, "topic")
CONSUMES = Access(Permission.SUB, Resource.GROUP, "consumer_group")
HEARTBEATS = Access(Permission.SUB, Resource.HEARTBEAT)
CHANGES_ACCOUNTS = Access(Permission.ADMIN, Resource.ACCOUNTS)
