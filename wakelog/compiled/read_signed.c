/* Reads what a signed send claims, and what its signature covers: the values of all fields but the
   signature, in the order of their names, and then the body. Names with a capital come first. */

#include "runs.h"

/* Decode a value behind what is there. Return 0 if it is no text. */
static int put_value(const struct header_fields *fields, int name, uint8_t **to, struct bytes *value) {
    struct bytes json = fields->values[name];
    *value = (struct bytes){*to, 0};
    if (!(fields->seen >> name & 1))
        return 1;
    if (json.size < 2 || *json.begin != '"')
        return 0; /* a number or null; Python says which text that stands for */
    ptrdiff_t size = decode_text(json.begin + 1, json.size - 2, *to);
    if (size < 0)
        return 0;
    value->size = (size_t)size;
    *to += size;
    return 1;
}

int read_signed(struct bytes header, struct signed_send *found) {
    struct header_fields fields;
    struct bytes value;
    uint8_t *to = found->text;
    if (header.size > sizeof found->text || !read_header_fields(header, &fields) ||
        !(fields.seen >> ACCESS_KEY & 1))
        return 0;
    if (!put_value(&fields, SIGNATURE, &to, &found->signature) ||
        !put_value(&fields, ACCESS_KEY, &to, &found->access_key) ||
        !put_value(&fields, SECURITY_TOKEN, &to, &value))
        return 0;
    for (int letter = 0; letter < LETTERS; letter++)
        if (!put_value(&fields, letter, &to, &value))
            return 0;
    const uint8_t *begin = found->access_key.begin;
    found->content = (struct bytes){begin, (size_t)(to - begin)};
    return 1;
}
