/* The functions of the library as Python calls them: arguments in, values out, nothing kept.

   Each one is given buffers, and looks at nothing else. library.py says what each takes. */

#include "arguments.h"
#include "pulls.h"
#include "runs.h"
#include "stable_abi.h"

#ifndef SOURCE_DIGEST
#error "build.py gives the digest of the source"
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define CRC_UNLOCKED_BYTES_MIN (64 << 10) /* some 6 us */

static struct bytes bytes_of(const struct argument *argument) {
    return (struct bytes){argument->items, (size_t)argument->count};
}

static PyObject *tuple_of(Py_ssize_t count, PyObject *const *items) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!items[i] || !tuple) {
            Py_DecRef(tuple);
            tuple = NULL;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (tuple)
            PyTuple_SetItem(tuple, i, items[i]);
        else
            Py_DecRef(items[i]);
    }
    return tuple;
}

/* Return the distinct queues as tuples of topic and queue id; equal topics are one object. */
static PyObject *queues_of(struct bytes chunk, const struct send *sends, const int32_t *first,
                           int count) {
    PyObject *queues[RUN_MESSAGES_MAX], *topic = NULL;
    const struct send *last = NULL;
    for (int i = 0; i < count; i++) {
        const struct send *send = &sends[first[i]];
        if (!last || last->topic_bytes != send->topic_bytes ||
            memcmp(chunk.begin + last->topic_begin, chunk.begin + send->topic_begin,
                   (size_t)send->topic_bytes) != 0) {
            Py_DecRef(topic);
            topic = PyUnicode_FromStringAndSize((const char *)chunk.begin + send->topic_begin,
                                                send->topic_bytes);
        }
        last = send;
        Py_IncRef(topic);
        PyObject *pair[] = {topic, PyLong_FromLongLong(send->queue_id)};
        queues[i] = tuple_of(2, pair);
    }
    Py_DecRef(topic);
    return tuple_of(count, queues);
}

static PyObject *py_read_sends(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    struct run run;
    (void)self;
    if (!take_arguments(&taken, "bnnnnn", args, count))
        return NULL;
    const struct argument *at = taken.at;
    for (int i = 1; i < 6; i++)
        if (at[i].number < 0 || at[i].number > (i == 2 ? RUN_MESSAGES_MAX : INT32_MAX))
            return refuse_arguments(&taken, "a position or a limit is out of range");
    struct bytes chunk = bytes_of(&at[0]);
    struct read_limits limits = {(int)at[2].number, (size_t)at[3].number, (size_t)at[4].number,
                                 (size_t)at[5].number};
    read_sends(chunk, (size_t)at[1].number, limits, &run);
    int64_t end = run.sends_count ? run.sends[run.sends_count - 1].end : at[1].number;
    PyObject *found[] = {
        PyLong_FromLongLong(end),
        PyLong_FromLongLong(run.code),
        PyLong_FromLongLong(run.records),
        PyLong_FromLongLong(run.record_bytes),
        PyBytes_FromStringAndSize((const char *)run.sends,
                                  (Py_ssize_t)sizeof(struct send) * run.sends_count),
        queues_of(chunk, run.sends, run.first, run.queues_count),
    };
    release_arguments(&taken);
    return tuple_of(6, found);
}

/* Return access key, signature and what it covers, as bytes; () if that is for Python. */
static PyObject *signed_of(struct bytes chunk, const struct send *send) {
    struct signed_send found;
    struct bytes header = {chunk.begin + send->header_begin,
                           (size_t)(send->body_begin - send->header_begin)};
    struct bytes body = {chunk.begin + send->body_begin, (size_t)(send->end - send->body_begin)};
    if (!read_signed(header, &found))
        return PyTuple_New(0);
    PyObject *content =
        PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(found.content.size + body.size));
    if (content) {
        char *to = PyBytes_AsString(content);
        memcpy(to, found.content.begin, found.content.size);
        memcpy(to + found.content.size, body.begin, body.size);
    }
    PyObject *parts[] = {
        PyBytes_FromStringAndSize((const char *)found.access_key.begin,
                                  (Py_ssize_t)found.access_key.size),
        PyBytes_FromStringAndSize((const char *)found.signature.begin,
                                  (Py_ssize_t)found.signature.size),
        content,
    };
    return tuple_of(3, parts);
}

static PyObject *py_read_signed(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    struct send send;
    (void)self;
    if (!take_arguments(&taken, "bbn", args, count))
        return NULL;
    const struct argument *at = taken.at;
    struct bytes chunk = bytes_of(&at[0]), table = bytes_of(&at[1]);
    if (at[2].number < 0 || (size_t)at[2].number >= table.size / sizeof send)
        return refuse_arguments(&taken, "there is no such send");
    memcpy(&send, table.begin + (size_t)at[2].number * sizeof send, sizeof send);
    if (send.header_begin < 0 || send.body_begin < send.header_begin ||
        send.end < send.body_begin || (size_t)send.end > chunk.size)
        return refuse_arguments(&taken, "the send is not in the chunk");
    PyObject *found = signed_of(chunk, &send);
    release_arguments(&taken);
    return found;
}

static PyObject *py_encode_records(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    struct send sends[RUN_MESSAGES_MAX];
    struct queue queues[RUN_MESSAGES_MAX];
    struct stored stored[BATCH_RECORDS_MAX];
    struct stored_counts counts = {0, 0};
    size_t used = 0;
    (void)self;
    if (!take_arguments(&taken, "bbbbLBnnnnnn", args, count))
        return NULL;
    const struct argument *at = taken.at;
    struct bytes table = bytes_of(&at[1]);
    size_t sends_count = table.size / sizeof(struct send);
    size_t queues_size = (size_t)at[4].count * sizeof(int64_t);
    if (table.size > sizeof sends || table.size % sizeof(struct send) || queues_size > sizeof queues ||
        queues_size % sizeof(struct queue))
        return refuse_arguments(&taken, "a table has no whole rows, or too many");
    if (at[6].number < 0 || (size_t)at[6].number > sends_count)
        return refuse_arguments(&taken, "more sends are taken than there are");
    memcpy(sends, table.begin, table.size);
    memcpy(queues, at[4].items, queues_size);
    struct log_end log = {at[7].number, at[8].number, at[9].number, at[10].number,
                          at[11].number != 0};
    int placed =
        encode_records(bytes_of(&at[0]), sends + at[6].number,
                       (int)(sends_count - (size_t)at[6].number), queues,
                       queues_size / sizeof(struct queue), bytes_of(&at[2]), bytes_of(&at[3]), log,
                       at[5].items, (size_t)at[5].count, &used, stored, &counts);
    if (placed < 0)
        return refuse_arguments(&taken, "the tables, the head or the room do not fit the sends");
    memcpy(at[4].items, queues, queues_size);
    release_arguments(&taken);
    PyObject *found[] = {
        PyLong_FromLongLong(placed),
        PyLong_FromLongLong((long long)used),
        PyBytes_FromStringAndSize((const char *)stored,
                                  (Py_ssize_t)sizeof(struct stored) * counts.rows),
        PyLong_FromLongLong(counts.responses),
    };
    return tuple_of(4, found);
}

static PyObject *py_encode_responses(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    struct stored stored[BATCH_RECORDS_MAX];
    (void)self;
    if (!take_arguments(&taken, "bbb", args, count))
        return NULL;
    struct bytes template = bytes_of(&taken.at[0]), joint = bytes_of(&taken.at[1]);
    struct bytes table = bytes_of(&taken.at[2]);
    size_t stored_count = table.size / sizeof(struct stored);
    if (table.size > sizeof stored || table.size % sizeof(struct stored))
        return refuse_arguments(&taken, "the table has no whole rows, or too many");
    memcpy(stored, table.begin, table.size);
    size_t size = encode_responses(template, joint, stored, stored_count, NULL);
    if (!size && stored_count)
        return refuse_arguments(&taken, "the template has not its four places");
    PyObject *frames = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (frames && size)
        encode_responses(template, joint, stored, stored_count,
                         (uint8_t *)PyBytes_AsString(frames));
    release_arguments(&taken);
    return frames;
}

static PyObject *py_choose_stretch(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    struct stretch found = {0};
    (void)self;
    if (!take_arguments(&taken, "bnnnnnn", args, count))
        return NULL;
    const struct argument *at = taken.at;
    struct stretch_limits limits = {at[1].number, at[2].number, at[3].number,
                                    at[4].number, at[5].number, at[6].number};
    if (limits.begin < 0)
        return refuse_arguments(&taken, "the log begins below 0");
    if (!choose_stretch(bytes_of(&at[0]), limits, &found))
        found.count = 0;
    int64_t numbers[] = {found.count, found.begin,     found.end,
                         found.bytes, found.last_sent, found.last_read};
    return return_numbers(&taken, 6, numbers);
}

static PyObject *py_filter_entries(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    struct filtered found;
    (void)self;
    if (!take_arguments(&taken, "blnnnnB", args, count))
        return NULL;
    const struct argument *at = taken.at;
    struct stretch_limits limits = {at[2].number, at[3].number, at[4].number, at[5].number, 0, 0};
    if (at[6].count < at[0].count)
        return refuse_arguments(&taken, "there is no room for all entries");
    if (!filter_entries(bytes_of(&at[0]), at[1].items, (size_t)at[1].count, limits, at[6].items,
                        &found))
        found.scanned = 0;
    int64_t numbers[] = {found.count, found.scanned, found.bytes, found.last_sent, found.last_read};
    return return_numbers(&taken, 5, numbers);
}

static PyObject *py_join_records(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    (void)self;
    if (!take_arguments(&taken, "bnnbBnn", args, count))
        return NULL;
    const struct argument *at = taken.at;
    int64_t to = at[5].number, size = at[6].number;
    if (at[2].number < 0 || to < 0 || size < 0 || to > at[4].count || size > at[4].count - to)
        return refuse_arguments(&taken, "the records have no such room");
    int64_t is_sound = join_records(bytes_of(&at[0]), at[1].number, bytes_of(&at[3]),
                                    (size_t)at[2].number, (uint8_t *)at[4].items + to,
                                    (size_t)size);
    return return_numbers(&taken, 1, &is_sound);
}

static PyObject *py_make_room(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    (void)self;
    if (!take_arguments(&taken, "n", args, count))
        return NULL;
    if (taken.at[0].number < 0)
        return refuse_arguments(&taken, "a room has fewer than 0 bytes");
    return PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)taken.at[0].number);
}

static PyObject *py_crc32(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    (void)self;
    if (!take_arguments(&taken, "b", args, count))
        return NULL;
    struct bytes data = bytes_of(&taken.at[0]);
    void *lock = data.size < CRC_UNLOCKED_BYTES_MIN ? NULL : PyEval_SaveThread();
    uint32_t crc = crc32_of(data.begin, data.size);
    if (lock)
        PyEval_RestoreThread(lock);
    release_arguments(&taken);
    return PyLong_FromUnsignedLong(crc);
}

static PyMethodDef FUNCTIONS[] = {
    {"read_sends", py_read_sends, METH_FASTCALL, "See wakelog.compiled.library."},
    {"read_signed", py_read_signed, METH_FASTCALL, "See wakelog.compiled.library."},
    {"encode_records", py_encode_records, METH_FASTCALL, "See wakelog.compiled.library."},
    {"encode_responses", py_encode_responses, METH_FASTCALL, "See wakelog.compiled.library."},
    {"encode_list", py_encode_list, METH_FASTCALL, "See wakelog.compiled.library."},
    {"decode_record", py_decode_record, METH_FASTCALL, "See wakelog.compiled.library."},
    {"make_messages", py_make_messages, METH_FASTCALL, "See wakelog.compiled.library."},
    {"choose_stretch", py_choose_stretch, METH_FASTCALL, "See wakelog.compiled.library."},
    {"filter_entries", py_filter_entries, METH_FASTCALL, "See wakelog.compiled.library."},
    {"join_records", py_join_records, METH_FASTCALL, "See wakelog.compiled.library."},
    {"make_room", py_make_room, METH_FASTCALL, "See wakelog.compiled.library."},
    {"crc32", py_crc32, METH_FASTCALL, "See wakelog.compiled.library."},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module) {
    prepare_crc();
    if (PyModule_AddFunctions(module, COLUMN_FUNCTIONS) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "SOURCE_DIGEST", TEXT(SOURCE_DIGEST));
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, (void *)begin}, {0, NULL}};

static PyModuleDef MODULE = {
    .m_base = {.ob_refcnt = 1},
    .m_name = "functions",
    .m_doc = "The compiled twin of wakelog's inner loops.",
    .m_methods = FUNCTIONS,
    .m_slots = SLOTS,
};

#ifdef _WIN32
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
PyObject *PyInit_functions(void);

PyObject *PyInit_functions(void) {
    return PyModuleDef_Init(&MODULE);
}
