/* Writes the body of a batch of a client's plain messages; protocol/batch.py has its layout.

   It reads Python's own objects: the list and the tuples that a user has. Whatever is not of the
   exact type that it looks for ends the batch before it, and Python decides about it. */

#include "arguments.h"
#include "runs.h"

#define LIST_MESSAGES_MAX 1024
#define PART_BYTES_MIN 22 /* of a message in a batch: its sizes, flag and CRC */

enum { TOPIC, BODY, TAGS, DEFAULTED, FIELDS = 10 }; /* of client/messages.py's Message */

/* One message of the batch. The objects are held until it is written. */
struct entry {
    PyObject *body, *key, *around;
    struct bytes parts[4]; /* the body; the properties before the key, the key, those after it */
};

struct list {
    PyObject *messages, *keys, *sample, *topic, *find_around;
    PyObject *message_type, *tags, *around; /* around: of the tags, which were the last */
    int64_t body_bytes_max;
};

static int is_exactly(PyObject *object, PyObject *type) {
    PyObject *found = PyObject_Type(object);
    Py_DecRef(found);
    return found == type;
}

static int take_bytes(PyObject *object, struct bytes *found) {
    if (!object || !is_exactly(object, (PyObject *)&PyBytes_Type))
        return 0;
    *found = (struct bytes){(const uint8_t *)PyBytes_AsString(object), (size_t)PyBytes_Size(object)};
    return 1;
}

static int is_plain(const struct list *list, PyObject *message) {
    if (!is_exactly(message, list->message_type) || PyTuple_Size(message) != FIELDS)
        return 0;
    for (int i = DEFAULTED; i < FIELDS; i++) /* the defaults themselves, not what equals them */
        if (PyTuple_GetItem(message, i) != PyTuple_GetItem(list->sample, i))
            return 0;
    PyObject *topic = PyTuple_GetItem(message, TOPIC);
    return topic == list->topic || (is_exactly(topic, (PyObject *)&PyUnicode_Type) &&
                                    PyUnicode_Compare(topic, list->topic) == 0);
}

/* Find what is around the key of a message with these tags. Return 0 if that is for Python, -1
   with an error set. */
static int find_around(struct list *list, PyObject *tags) {
    if (tags == list->tags)
        return 1;
    if (!is_exactly(tags, (PyObject *)&PyUnicode_Type))
        return 0;
    Py_IncRef(tags);
    PyObject *around = PyObject_CallFunctionObjArgs(list->find_around, tags, NULL);
    if (!around) {
        Py_DecRef(tags);
        return -1;
    }
    Py_DecRef(list->tags);
    Py_DecRef(list->around);
    list->tags = tags;
    list->around = around;
    if (is_exactly(around, (PyObject *)&PyTuple_Type) && PyTuple_Size(around) == 2)
        return 1;
    PyErr_SetString(PyExc_ValueError, "what is around a key has two parts");
    return -1;
}

/* Take one message. Return 0 if it is for Python, -1 with an error set. */
static int take_entry(struct list *list, Py_ssize_t at, struct entry *entry) {
    PyObject *message = PyList_GetItem(list->messages, at);
    if (!is_plain(list, message))
        return 0;
    PyObject *body = PyTuple_GetItem(message, BODY);
    if (!take_bytes(body, &entry->parts[0]) || !entry->parts[0].size ||
        (int64_t)entry->parts[0].size > list->body_bytes_max)
        return 0;
    Py_IncRef(body);
    entry->body = body;
    int found = find_around(list, PyTuple_GetItem(message, TAGS));
    PyObject *key = found > 0 ? PyList_GetItem(list->keys, at) : NULL;
    Py_ssize_t key_bytes = 0;
    const char *text = key ? PyUnicode_AsUTF8AndSize(key, &key_bytes) : NULL;
    if (found <= 0 || !text)
        return found > 0 ? -1 : found;
    Py_IncRef(key);
    entry->key = key;
    Py_IncRef(list->around);
    entry->around = list->around;
    entry->parts[2] = (struct bytes){(const uint8_t *)text, (size_t)key_bytes};
    if (take_bytes(PyTuple_GetItem(list->around, 0), &entry->parts[1]) &&
        take_bytes(PyTuple_GetItem(list->around, 1), &entry->parts[3]))
        return 1;
    PyErr_SetString(PyExc_ValueError, "what is around a key is no bytes");
    return -1;
}

static size_t properties_bytes(const struct entry *entry) {
    return entry->parts[1].size + entry->parts[2].size + entry->parts[3].size;
}

static uint8_t *put_part(uint8_t *out, struct bytes part) {
    memcpy(out, part.begin, part.size);
    return out + part.size;
}

static uint8_t *put_entry(uint8_t *out, const struct entry *entry) {
    size_t body = entry->parts[0].size, properties = properties_bytes(entry);
    put_32(out, (uint32_t)(PART_BYTES_MIN + body + properties));
    memset(out + 4, 0, 12); /* magic, CRC, flag */
    put_32(out + 16, (uint32_t)body);
    out = put_part(out + 20, entry->parts[0]);
    put_16(out, (uint32_t)properties);
    out += 2;
    for (int i = 1; i < 4; i++)
        out = put_part(out, entry->parts[i]);
    return out;
}

static PyObject *body_of(const struct entry *entries, int count, int64_t size) {
    PyObject *body = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    uint8_t *out = body ? (uint8_t *)PyBytes_AsString(body) : NULL;
    for (int i = 0; out && i < count; i++)
        out = put_entry(out, &entries[i]);
    return body;
}

/* Return the body of the first batch from `at` on; NULL with an error set. */
static PyObject *encode_batch(struct list *list, Py_ssize_t at, int64_t count_max,
                              int64_t bytes_max, int *taken) {
    struct entry entries[LIST_MESSAGES_MAX];
    int count = 0, found = 1;
    int64_t size = 0;
    while (count < count_max && at + count < PyList_Size(list->messages) &&
           at + count < PyList_Size(list->keys)) {
        struct entry *entry = &entries[count];
        *entry = (struct entry){0};
        found = take_entry(list, at + count, entry);
        int64_t more = found > 0 ? (int64_t)(PART_BYTES_MIN + entry->parts[0].size +
                                             properties_bytes(entry)) : 0;
        if (found <= 0 || properties_bytes(entry) > INT16_MAX || size + more > bytes_max) {
            Py_DecRef(entry->body);
            Py_DecRef(entry->key);
            Py_DecRef(entry->around);
            break;
        }
        size += more;
        count++;
    }
    PyObject *body = found < 0 ? NULL : body_of(entries, count, size);
    *taken = count;
    while (count--) {
        Py_DecRef(entries[count].body);
        Py_DecRef(entries[count].key);
        Py_DecRef(entries[count].around);
    }
    return body;
}

PyObject *py_encode_list(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    (void)self;
    if (!take_arguments(&taken, "ooooonnnn", args, count))
        return NULL;
    const struct argument *at = taken.at;
    struct list list = {.messages = at[0].items, .keys = at[1].items, .sample = at[2].items,
                        .topic = at[3].items, .find_around = at[4].items};
    list.body_bytes_max = at[8].number;
    if (PyList_Size(list.messages) < 0 || PyList_Size(list.keys) < 0 ||
        PyTuple_Size(list.sample) != FIELDS ||
        !is_exactly(list.topic, (PyObject *)&PyUnicode_Type))
        return refuse_arguments(&taken, "messages, keys, a sample or a topic are of another type");
    if (at[5].number < 0 || at[6].number < 0 || at[6].number > LIST_MESSAGES_MAX ||
        at[7].number < 0 || at[7].number > INT32_MAX)
        return refuse_arguments(&taken, "a position or a limit is out of range");
    int messages_count = 0;
    list.message_type = PyObject_Type(list.sample);
    PyObject *body = encode_batch(&list, (Py_ssize_t)at[5].number, at[6].number, at[7].number,
                                  &messages_count);
    Py_DecRef(list.message_type);
    Py_DecRef(list.tags);
    Py_DecRef(list.around);
    PyObject *pair = body ? PyTuple_New(2) : NULL, *number = PyLong_FromLongLong(messages_count);
    if (!pair || !number) {
        Py_DecRef(pair);
        Py_DecRef(number);
        Py_DecRef(body);
        return NULL;
    }
    PyTuple_SetItem(pair, 0, number);
    PyTuple_SetItem(pair, 1, body);
    return pair;
}
