"""How findings and changes name what they are about."""

from wakelog.client.route import MASTER_ID
from wakelog.console.cluster_reading import BrokerReading
from wakelog.protocol.body_codec import MessageQueue


def broker_text(broker: BrokerReading) -> str:
    """Return which broker."""
    return f"broker {broker.name} ({broker.broker_id}) at {broker.address}"


def queue_text(queue: MessageQueue) -> str:
    """Return which queue."""
    return f"queue {queue.queue_id} of {queue.topic} at {queue.broker_name}"


def role_text(broker_id: int) -> str:
    """Return what a broker is by its id."""
    return "master" if broker_id == MASTER_ID else f"replica {broker_id}"
