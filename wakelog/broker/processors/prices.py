"""The bounds of the bodies that a broker parses, by request code, each with its reason.

A request that is not here has a body that nobody reads, ``NOT_READ``. `requestLimitFactor` in
broker.conf multiplies all bounds. That of a header is in ``protocol.header_codec``. It is the same
for every code, because the code is in the header.

4.9.3 has no limit but that of the frame, 16 MiB.
"""

from typing import Final

from wakelog.network.request import ADMINISTRATION, Price
from wakelog.protocol.codes import RequestCode as Code
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.frame import FRAME_BYTES_MAX

MESSAGE: Final = Price(FRAME_BYTES_MAX, refusal=ResponseCode.MESSAGE_ILLEGAL)
"""maxMessageSize bounds it, and is answered with code 13. A body is not parsed, a batch is cut."""

REPLY: Final = Price(FRAME_BYTES_MAX)
"""It goes on to a client, and is stored only with storeReplyMessageEnable."""

HEARTBEAT: Final = Price(2_097_152, 65_536)
"""1,000 subscriptions have some 300 KB and 10,000 entries; 65,536 take 30 ms to parse."""

QUEUES: Final = Price(1_048_576, 16_384)
"""4,096 queues of one topic at this broker. The largest that 4.9.3 creates itself has 1,024."""

NOT_READ: Final = ADMINISTRATION._replace(is_read=False)
"""Of all requests that are not in the table."""

PRICES: Final = {
    Code.SEND_MESSAGE: MESSAGE,
    Code.SEND_MESSAGE_V2: MESSAGE,
    Code.SEND_BATCH_MESSAGE: MESSAGE,
    Code.SEND_REPLY_MESSAGE: REPLY,
    Code.SEND_REPLY_MESSAGE_V2: REPLY,
    Code.HEART_BEAT: HEARTBEAT,
    Code.LOCK_BATCH_MQ: QUEUES,
    Code.UNLOCK_BATCH_MQ: QUEUES,
    Code.CHECK_CLIENT_CONFIG: ADMINISTRATION,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ADMINISTRATION,
    Code.UPDATE_BROKER_CONFIG: ADMINISTRATION,
    Code.GET_CONSUMER_RUNNING_INFO: ADMINISTRATION,
}
