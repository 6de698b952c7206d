/* Reads the frames of plain sends: code 310 or 320, a JSON header of known names, one message or
   a batch of whole messages.

   A client with an account adds its access key and a signature, and perhaps a token.

   It takes a part of what msgspec takes, and finds the same values there. Whatever is not clear is
   no plain send: white space, a name that comes twice, a number that is written in an unusual way,
   a surrogate, bytes that are not UTF-8. Python decides about those. */

#include "runs.h"

static const char PREFIX[] = "{\"code\":";
enum { SEND_MESSAGE_V2 = 310, SEND_BATCH_MESSAGE = 320 };
#define FRAME_HEAD_BYTES 8
#define RESPONSE_FLAG 1

struct cursor {
    const uint8_t *at, *end;
};

struct text {
    const uint8_t *begin;
    size_t size;
    int has_escape;
};

static inline int take(struct cursor *c, uint8_t byte) {
    if (c->at == c->end || *c->at != byte)
        return 0;
    c->at++;
    return 1;
}

/* Nonzero if one of eight bytes is a quote, a backslash, below 0x20, or not ASCII. The lowest bit
   is of the first such byte; after it there may be bits of others. */
static inline uint64_t has_special(uint64_t word) {
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t quote = word ^ (ones * '"'), slash = word ^ (ones * '\\');
    uint64_t found = (word - ones * 0x20) | (quote - ones) | (slash - ones) | word;
    return found & high;
}

/* Return how many bytes the UTF-8 character at `at` has, 0 if there is none; it is not ASCII. */
static size_t character_bytes(const uint8_t *at, const uint8_t *end) {
    size_t size = *at >= 0xF0 ? 4 : *at >= 0xE0 ? 3 : 2;
    if (*at < 0xC2 || *at > 0xF4 || (size_t)(end - at) < size)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    if ((*at == 0xE0 && at[1] < 0xA0) || (*at == 0xED && at[1] > 0x9F) ||
        (*at == 0xF0 && at[1] < 0x90) || (*at == 0xF4 && at[1] > 0x8F))
        return 0;
    return size;
}

static int is_hex(uint8_t byte) {
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f');
}

/* Return how many bytes the escape at a backslash has, 0 if it is none that is understood. */
static size_t escape_bytes(const uint8_t *at, const uint8_t *end) {
    if (end - at < 2)
        return 0;
    switch (at[1]) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return 2;
    case 'u':
        if (end - at < 6 || !is_hex(at[2]) || !is_hex(at[3]) || !is_hex(at[4]) || !is_hex(at[5]))
            return 0;
        if ((at[2] | 0x20) == 'd' && at[3] >= '8') /* a surrogate; letters are above digits */
            return 0;
        return 6;
    default:
        return 0;
    }
}

static int take_text(struct cursor *c, struct text *found) {
    if (!take(c, '"'))
        return 0;
    found->begin = c->at;
    found->has_escape = 0;
    for (;;) {
        uint64_t word, special = 0;
        while (c->end - c->at >= 8) {
            memcpy(&word, c->at, 8);
            if ((special = has_special(word)) != 0)
                break;
            c->at += 8;
        }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        if (special)
            c->at += __builtin_ctzll(special) / 8;
#endif
        if (c->at == c->end || *c->at < 0x20)
            return 0;
        size_t step = 1;
        if (*c->at == '"') {
            found->size = (size_t)(c->at - found->begin);
            c->at++;
            return 1;
        }
        if (*c->at == '\\') {
            step = escape_bytes(c->at, c->end);
            found->has_escape = 1;
        } else if (*c->at >= 0x80) {
            step = character_bytes(c->at, c->end);
        }
        if (!step)
            return 0;
        c->at += step;
    }
}

static inline int take_word(struct cursor *c, const char *word, size_t size) {
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, word, size) != 0)
        return 0;
    c->at += size;
    return 1;
}

#define TAKE_WORD(c, word) take_word(c, word, sizeof(word) - 1)

/* Take an integer, which may be a string: -?(0|[1-9][0-9]*) within a range, and no -0. */
static int take_integer(struct cursor *c, int64_t minimum, int64_t maximum, int64_t *found) {
    int is_text = take(c, '"'), is_negative = take(c, '-');
    const uint8_t *begin = c->at;
    uint64_t value = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        if (c->at - begin == 19)
            return 0; /* nineteen digits are below 2 to the 64th */
        value = value * 10 + (uint64_t)(*c->at++ - '0');
    }
    if (c->at == begin || (*begin == '0' && (c->at - begin > 1 || is_negative)))
        return 0;
    if (value > (uint64_t)INT64_MAX)
        return 0;
    *found = is_negative ? -(int64_t)value : (int64_t)value;
    if (*found < minimum || *found > maximum)
        return 0;
    return !is_text || take(c, '"');
}

static int take_32(struct cursor *c, int32_t *found) {
    int64_t value;
    if (!take_integer(c, INT32_MIN, INT32_MAX, &value))
        return 0;
    *found = (int32_t)value;
    return 1;
}

static int take_optional_32(struct cursor *c, int32_t *found) {
    return TAKE_WORD(c, "null") || take_32(c, found);
}

/* Take a boolean, which may be a string. */
static int take_boolean(struct cursor *c, int *found) {
    int is_text = take(c, '"');
    *found = TAKE_WORD(c, "true");
    return (*found || TAKE_WORD(c, "false")) && (!is_text || take(c, '"'));
}

static const uint32_t REQUIRED = 0xFF; /* a to h */

static int take_field(struct cursor *c, uint8_t letter, struct send *send, struct text *topic,
                      struct text *properties) {
    struct text other;
    int32_t number;
    int is_true;
    switch (letter) {
    case 'a': case 'c': case 'n':
        return take_text(c, &other);
    case 'b':
        return take_text(c, topic) && !topic->has_escape;
    case 'd':
        return take_32(c, &number);
    case 'e':
        return take_32(c, &send->queue_id);
    case 'f':
        return take_32(c, &send->sys_flag);
    case 'g':
        return take_integer(c, INT64_MIN, INT64_MAX, &send->born_ms);
    case 'h':
        return take_32(c, &send->flag);
    case 'i':
        return TAKE_WORD(c, "null") || take_text(c, properties);
    case 'j':
        return take_optional_32(c, &send->reconsume_times);
    case 'k':
        return take_boolean(c, &is_true);
    case 'l':
        return take_optional_32(c, &number);
    case 'm':
        return take_boolean(c, &send->batched);
    default:
        return 0;
    }
}

/* Take the name of a field. Return which: a is 0; of those that sign, the number in runs.h; or -1. */
static int take_field_name(struct cursor *c) {
    if (!take(c, '"'))
        return -1;
    if (c->end - c->at >= 3 && c->at[1] == '"' && c->at[2] == ':') {
        int letter = c->at[0];
        c->at += 3;
        return letter >= 'a' && letter <= 'n' ? letter - 'a' : -1;
    }
    return TAKE_WORD(c, "AccessKey\":")       ? ACCESS_KEY
           : TAKE_WORD(c, "Signature\":")     ? SIGNATURE
           : TAKE_WORD(c, "SecurityToken\":") ? SECURITY_TOKEN
                                              : -1;
}

static int take_fields(struct cursor *c, struct send *send, struct text *topic,
                       struct text *properties, struct header_fields *fields) {
    struct text other;
    fields->seen = 0;
    if (!take(c, '{'))
        return 0;
    do {
        int name = take_field_name(c);
        if (name < 0 || fields->seen >> name & 1)
            return 0;
        fields->seen |= 1u << name;
        const uint8_t *begin = c->at;
        if (!(name < LETTERS ? take_field(c, (uint8_t)('a' + name), send, topic, properties)
                             : take_text(c, &other)))
            return 0;
        fields->values[name] = (struct bytes){begin, (size_t)(c->at - begin)};
    } while (take(c, ','));
    return take(c, '}') && (fields->seen & REQUIRED) == REQUIRED;
}

enum { EXT_FIELDS, FLAG, LANGUAGE, OPAQUE, REMARK, SERIALIZE_TYPE, VERSION, NAMES_COUNT };

#define NAME(text) {text "\":", sizeof(text) + 1}

static const struct {
    const char *text;
    size_t size;
} NAMES[NAMES_COUNT] = {
    NAME("extFields"), NAME("flag"), NAME("language"), NAME("opaque"), NAME("remark"),
    NAME("serializeTypeCurrentRPC"), NAME("version"),
};

/* Take a name of a header; clients write most of them in this order. Return which, or -1. */
static int take_name(struct cursor *c, int last) {
    if (!take(c, '"'))
        return -1;
    for (int i = 1; i <= NAMES_COUNT; i++) {
        int name = (last + i) % NAMES_COUNT;
        if (take_word(c, NAMES[name].text, NAMES[name].size))
            return name;
    }
    return -1;
}

static int take_value(struct cursor *c, int name, struct send *send, struct text *topic,
                      struct text *properties, struct header_fields *fields) {
    struct text other;
    int32_t number;
    switch (name) {
    case EXT_FIELDS:
        return take_fields(c, send, topic, properties, fields);
    case FLAG:
        return take_32(c, &send->command_flag);
    case OPAQUE:
        return take_32(c, &send->opaque);
    case VERSION:
        return take_32(c, &number);
    case REMARK:
        return TAKE_WORD(c, "null") || take_text(c, &other);
    default: /* LANGUAGE, SERIALIZE_TYPE */
        return take_text(c, &other);
    }
}

/* Take the code of a send; a run has one. Return 0 for another. */
static int take_code(struct cursor *c, int *code) {
    int found = TAKE_WORD(c, "310,") ? SEND_MESSAGE_V2
                : TAKE_WORD(c, "320,") ? SEND_BATCH_MESSAGE : 0;
    if (!*code)
        *code = found;
    return found && found == *code;
}

static int read_header(struct cursor *c, int *code, struct send *send, struct text *topic,
                       struct text *properties, struct header_fields *fields) {
    uint32_t seen = 0;
    int name = -1;
    if (!TAKE_WORD(c, PREFIX) || !take_code(c, code))
        return 0;
    do {
        name = take_name(c, name);
        if (name < 0 || seen >> name & 1)
            return 0;
        seen |= 1u << name;
        if (!take_value(c, name, send, topic, properties, fields))
            return 0;
    } while (take(c, ','));
    return take(c, '}') && c->at == c->end && seen >> EXT_FIELDS & 1;
}

int take_part(struct bytes *left, struct part *part) {
    enum { FLAG_AT = 12, BODY_SIZE_AT = 16, HEAD_BYTES = 20, SIZE_BYTES = 2 };
    if (left->size < HEAD_BYTES + SIZE_BYTES)
        return 0;
    const uint8_t *at = left->begin;
    size_t rest = left->size - HEAD_BYTES - SIZE_BYTES, body = get_32(at + BODY_SIZE_AT);
    if (body > rest)
        return 0;
    const uint8_t *behind = at + HEAD_BYTES + body;
    size_t properties = (size_t)behind[0] << 8 | behind[1];
    if (properties > INT16_MAX || properties > rest - body)
        return 0;
    part->flag = (int32_t)get_32(at + FLAG_AT);
    part->body = (struct bytes){at + HEAD_BYTES, body};
    part->properties = (struct bytes){behind + SIZE_BYTES, properties};
    left->begin = behind + SIZE_BYTES + properties;
    left->size = rest - body - properties;
    return 1;
}

/* Return how many messages a batch has, 0 if there are too many or what is left over is none. */
static int count_parts(struct bytes body) {
    struct part part;
    int count = 0;
    while (body.size)
        if (count == BATCH_RECORDS_MAX || !take_part(&body, &part))
            return 0;
        else
            count++;
    return count;
}

static int read_send(struct bytes chunk, size_t begin, struct read_limits limits, int *code,
                     struct send *send) {
    size_t left = chunk.size - begin;
    if (left < FRAME_HEAD_BYTES)
        return 0;
    const uint8_t *frame = chunk.begin + begin;
    size_t frame_bytes = (size_t)get_32(frame) + 4;
    size_t header_bytes = get_32(frame + 4); /* JSON has 0 in the highest byte */
    if (frame_bytes > left || frame_bytes > limits.batch_frame_bytes_max ||
        frame_bytes < FRAME_HEAD_BYTES)
        return 0;
    if (header_bytes > limits.header_bytes_max || header_bytes > frame_bytes - FRAME_HEAD_BYTES)
        return 0;
    struct text topic = {0}, properties = {0};
    struct header_fields fields;
    const uint8_t *body = frame + FRAME_HEAD_BYTES + header_bytes;
    struct cursor c = {frame + FRAME_HEAD_BYTES, body};
    *send = (struct send){0};
    if (!read_header(&c, code, send, &topic, &properties, &fields) || send->command_flag & RESPONSE_FLAG)
        return 0;
    if (!send->batched) {
        if (frame_bytes > limits.frame_bytes_max)
            return 0;
    } else {
        send->batched = count_parts((struct bytes){body, (size_t)(frame + frame_bytes - body)});
        if (!send->batched)
            return 0;
    }
    send->header_begin = (int32_t)(begin + FRAME_HEAD_BYTES);
    send->body_begin = (int32_t)(begin + FRAME_HEAD_BYTES + header_bytes);
    send->end = (int32_t)(begin + frame_bytes);
    send->topic_begin = (int32_t)(topic.begin - chunk.begin);
    send->topic_bytes = (int32_t)topic.size;
    send->properties_begin = properties.begin ? (int32_t)(properties.begin - chunk.begin) : -1;
    send->properties_bytes = (int32_t)properties.size;
    return 1;
}

static int has_queue(struct bytes chunk, const struct send *a, const struct send *b) {
    return a->queue_id == b->queue_id && a->topic_bytes == b->topic_bytes &&
           memcmp(chunk.begin + a->topic_begin, chunk.begin + b->topic_begin,
                  (size_t)a->topic_bytes) == 0;
}

void read_sends(struct bytes chunk, size_t begin, struct read_limits limits, struct run *run) {
    run->sends_count = run->queues_count = run->code = 0;
    run->records = run->record_bytes = 0;
    if (chunk.size > INT32_MAX || begin > chunk.size)
        return;
    while (run->sends_count < limits.sends_max) {
        struct send *send = &run->sends[run->sends_count];
        if (!read_send(chunk, begin, limits, &run->code, send))
            break;
        int records = send->batched ? send->batched : 1;
        if (run->records && run->records + records > RUN_RECORDS_MAX)
            break;
        int queue = 0;
        while (queue < run->queues_count && !has_queue(chunk, &run->sends[run->first[queue]], send))
            queue++;
        if (queue == run->queues_count)
            run->first[run->queues_count++] = run->sends_count;
        send->queue = queue;
        begin = (size_t)send->end;
        run->records += records;
        run->record_bytes +=
            send->end - send->body_begin +
            (int64_t)records * (RECORD_BYTES_ADDED_MAX + send->topic_bytes + send->properties_bytes);
        run->sends_count++;
    }
}

int read_header_fields(struct bytes header, struct header_fields *fields) {
    struct cursor c = {header.begin, header.begin + header.size};
    struct text topic, properties;
    struct send send;
    int code = 0;
    return read_header(&c, &code, &send, &topic, &properties, fields);
}
