"""The limits of the bodies that a broker parses, each with its reason; `table` has which is whose.

`requestLimitFactor` in broker.conf multiplies them. The limit of a header is in
``protocol.header_codec``. It is the same for every code, because the code is in the header.

4.9.3 has no limit but that of the frame, 16 MiB.
"""

from typing import Final

from wakelog.network.request import ADMINISTRATION, BodyLimits
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.frame import FRAME_BYTES_MAX

MESSAGE: Final = BodyLimits(FRAME_BYTES_MAX, refusal=ResponseCode.MESSAGE_ILLEGAL)
"""maxMessageSize bounds it, and is answered with code 13. A body is not parsed, a batch is cut."""

REPLY: Final = BodyLimits(FRAME_BYTES_MAX)
"""It goes on to a client, and is stored only with storeReplyMessageEnable."""

HEARTBEAT: Final = BodyLimits(2_097_152, 65_536)
"""1,000 subscriptions have some 300 KB and 10,000 entries; 65,536 take 30 ms to parse."""

QUEUES: Final = BodyLimits(1_048_576, 16_384)
"""4,096 queues of one topic at this broker. The largest that 4.9.3 creates itself has 1,024."""

NOT_READ: Final = ADMINISTRATION._replace(is_read=False)
"""Of a request that has no body. One that comes with it is dropped."""
