"""The body of a broker's registration, read at once."""

from wakelog.protocol.bodies import RegisterBrokerBody
from wakelog.protocol.register_broker import INFLATED_BYTES_MAX, decode_in_steps
from wakelog.protocol.steps import finish


def decode_register_broker(
    data: bytes, *, compressed: bool, inflated_bytes_max: int = INFLATED_BYTES_MAX
) -> RegisterBrokerBody:
    return finish(
        decode_in_steps(data, compressed=compressed, inflated_bytes_max=inflated_bytes_max)
    )
