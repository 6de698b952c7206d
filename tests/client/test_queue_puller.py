"""A queue that is read for a person: merged by time, and filtered by the broker if it can."""

import asyncio

from wakelog.client.admin import open_admin
from wakelog.client.message_filter import make_filter
from wakelog.client.queue_puller import QueuePuller, merged
from wakelog.client.received import ReceivedMessage
from wakelog.client.sync import Producer
from wakelog.testing.embedded_broker import EmbeddedBroker


def test_queues_are_merged_by_time_and_the_tag_is_checked() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("merged", queues=3)
        with Producer(broker.name_server, group="merging") as producer:
            for n in range(70):
                producer.send("merged", b"%d" % n, tags="even" if n % 2 == 0 else "odd")
        broker.wait_for_messages("merged", count=70)

        async def main() -> list[ReceivedMessage]:
            async with open_admin(broker.name_server) as admin:
                pullers = []
                for queue in await admin.queues("merged"):
                    begin, end = await admin.calls.range_of(queue)
                    accepts = make_filter("even", "")
                    pullers.append(QueuePuller(admin.calls, queue, begin, end, "even", accepts))
                return [each async for each in merged(pullers)]

        found = asyncio.run(main())
    assert sorted(int(each.body) for each in found) == list(range(0, 70, 2))
    times = [each.record.store_timestamp_ms for each in found]
    assert times == sorted(times) and times[0] < times[-1]
