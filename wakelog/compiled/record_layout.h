/* The layout of a record, as wakelog/protocol/record.py states it; tests compare the bytes.

   These positions are on disk and never change. */

#ifndef WAKELOG_RECORD_LAYOUT_H
#define WAKELOG_RECORD_LAYOUT_H

enum {
    SIZE_AT = 0, MAGIC_AT = 4, CRC_AT = 8, QUEUE_ID_AT = 12, FLAG_AT = 16, QUEUE_OFFSET_AT = 20,
    PHYSICAL_OFFSET_AT = 28, SYS_FLAG_AT = 36, BORN_TIMESTAMP_AT = 40, BORN_HOST_AT = 48,
    STORE_TIMESTAMP_AT_V4 = 56, STORE_HOST_AT_V4 = 64, RECONSUME_TIMES_AT_V4 = 72,
    PREPARED_OFFSET_AT_V4 = 76, BODY_SIZE_AT_V4 = 84,
    HEAD_BYTES_V4 = 88, V6_EXTRA_BYTES = 12, HOST_BYTES_V4 = 8, TAIL_BYTES_MIN = 3,
    TOPIC_BYTES_MAX = 127, RECORD_PROPERTIES_BYTES_MAX = 32767,
    BODY_COMPRESSED = 0x1, BORN_HOST_V6 = 0x10, STORE_HOST_V6 = 0x20,
    TRANSACTION_MASK = 0xC, TRANSACTION_PREPARED = 0x4, TRANSACTION_ROLLBACK = 0xC,
};
#define ENTRY_BYTES 20 /* of a consume queue: physical offset, size, tags code; and of an index */
#define MESSAGE_MAGIC 0xDAA320A7u
#define CRC_MASK 0x7FFFFFFFu /* a record keeps 31 bits */
#define NAME_VALUE_SEPARATOR 1
#define PROPERTY_SEPARATOR 2

#endif
