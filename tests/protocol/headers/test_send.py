"""Headers of sends, against the specification."""

from tests.protocol.headers.specification import check_headers
from wakelog.protocol.ext_fields import read_header
from wakelog.protocol.headers import send
from wakelog.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2


def test_the_headers_have_the_fields_of_the_specification() -> None:
    fields = {
        "SendMessageRequestHeader": (
            "producerGroup topic! defaultTopic defaultTopicQueueNums queueId! sysFlag! "
            "bornTimestamp! flag! properties reconsumeTimes unitMode batch maxReconsumeTimes"
        ),
        "SendMessageRequestHeaderV2": "a! b! c! d! e! f! g! h! i j k l m",
        "SendReplyRequestHeader": (
            "producerGroup topic! defaultTopic defaultTopicQueueNums queueId! sysFlag "
            "bornTimestamp! flag! properties reconsumeTimes unitMode batch maxReconsumeTimes"
        ),
        "SendReplyRequestHeaderV2": "a b! c d e! f g! h! i j k l m",
        "SendMessageResponseHeader": "msgId! queueId! queueOffset! transactionId",
        "ReplyMessageRequestHeader": (
            "producerGroup! topic! defaultTopic! defaultTopicQueueNums! queueId! sysFlag! "
            "bornTimestamp! flag! properties reconsumeTimes unitMode bornHost! storeHost! "
            "storeTimestamp!"
        ),
        "ConsumerSendMsgBackRequestHeader": (
            "offset! group! delayLevel! originMsgId originTopic unitMode maxReconsumeTimes"
        ),
    }
    check_headers(send, fields)


def test_both_send_headers_have_the_same_attributes() -> None:
    long_names = SendMessageRequestHeader.__struct_fields__
    assert SendMessageRequestHeaderV2.__struct_fields__ == long_names


def test_a_v2_send_of_the_java_client_is_read() -> None:
    header = read_header(
        SendMessageRequestHeaderV2,
        {"a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "2", "f": "0", "g": "1700000000000"}
        | {
            "h": "5",
            "i": "k\x01v",
            "j": "1",
            "k": "false",
            "l": "16",
            "m": "true",
            "n": "broker-a",
        },
    )
    assert (header.producer_group, header.topic, header.queue_id) == ("g", "T", 2)
    assert (header.born_timestamp, header.flag) == (1700000000000, 5)
    assert (header.reconsume_times, header.max_reconsume_times) == (1, 16)
    assert (header.unit_mode, header.batch) == (False, True)
