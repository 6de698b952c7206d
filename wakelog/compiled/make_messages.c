/* Makes a client's messages of a pull, in one pass; wakelog/client/consumer_message.py has their
   class. It writes Python's own objects: each gets four attributes, and decodes its record itself.

   A record that decode_record would refuse ends the pass before it, and Python decides about it. */

#include "arguments.h"
#include "records.h"

enum { BEGIN, ORIGIN, QUEUE_OFFSET, SIZE_BYTES, ATTRIBUTES };
static const char *const NAMES[ATTRIBUTES] = {"_begin", "_origin", "queue_offset", "size_bytes"};

struct maker {
    PyObject *type, *origin, *tags; /* tags: NULL for all */
    PyObject *names[ATTRIBUTES], *nothing;
    NewFunction new;
};

/* Whether the record has one of the tags; -1 with an error set. */
static int is_wanted(const struct maker *maker, struct buffer buffer, const struct row *row) {
    struct found found;
    if (!maker->tags)
        return 1;
    find_properties(buffer.begin, row->properties_begin,
                    row->properties_begin + row->properties_bytes, &found);
    PyObject *text = PyUnicode_DecodeUTF8((const char *)buffer.begin + found.begin[FOUND_TAGS],
                                          found.end[FOUND_TAGS] - found.begin[FOUND_TAGS],
                                          "replace");
    int is_there = text ? PySequence_Contains(maker->tags, text) : -1;
    Py_DecRef(text);
    return is_there;
}

/* Return a message; NULL with an error set. */
static PyObject *message_of(const struct maker *maker, int64_t begin, const struct row *row) {
    PyObject *message = maker->new((PyTypeObject *)maker->type, maker->nothing, NULL);
    Py_IncRef(maker->origin);
    PyObject *values[ATTRIBUTES] = {
        [BEGIN] = PyLong_FromLongLong(begin),
        [ORIGIN] = maker->origin,
        [QUEUE_OFFSET] = PyLong_FromLongLong(row->queue_offset),
        [SIZE_BYTES] = PyLong_FromLongLong(row->size),
    };
    int failed = !message;
    for (int i = 0; i < ATTRIBUTES; i++) {
        failed = failed || !values[i] || PyObject_SetAttr(message, maker->names[i], values[i]) < 0;
        Py_DecRef(values[i]);
    }
    if (!failed)
        return message;
    Py_DecRef(message);
    return NULL;
}

/* Append the messages of a pull to a list. Return where they end, -1 with an error set. */
static int64_t append_messages(const struct maker *maker, struct buffer buffer, PyObject *list) {
    struct row row;
    int64_t at = 0, size;
    while ((size = read_whole(buffer, at, &row))) {
        int wanted = is_wanted(maker, buffer, &row);
        PyObject *message = wanted > 0 ? message_of(maker, at, &row) : NULL;
        int failed = wanted < 0 || (wanted && (!message || PyList_Append(list, message) < 0));
        Py_DecRef(message);
        if (failed)
            return -1;
        at += size;
    }
    return at;
}

static int prepare(struct maker *maker, PyObject *tags) {
    PyObject *meta = PyObject_Type(maker->type);
    int is_type = PyType_IsSubtype((PyTypeObject *)meta, &PyType_Type);
    Py_DecRef(meta);
    Py_ssize_t tags_count = is_type ? PyObject_Size(tags) : 0;
    if (!is_type)
        PyErr_SetString(PyExc_TypeError, "the class of messages is no class");
    if (!is_type || tags_count < 0)
        return 0;
    maker->tags = tags_count ? tags : NULL;
    maker->new = (NewFunction)PyType_GetSlot((PyTypeObject *)maker->type, Py_tp_new);
    maker->nothing = PyTuple_New(0);
    int has_all = maker->new && maker->nothing;
    for (int i = 0; i < ATTRIBUTES; i++)
        has_all = has_all && (maker->names[i] = PyUnicode_InternFromString(NAMES[i]));
    if (!has_all && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "the class makes no objects");
    return has_all;
}

PyObject *py_make_messages(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    struct arguments taken;
    (void)self;
    if (!take_arguments(&taken, "booo", args, count))
        return NULL;
    struct maker maker = {.type = taken.at[1].items, .origin = taken.at[2].items};
    struct buffer buffer = {taken.at[0].items, taken.at[0].count};
    PyObject *list = NULL, *number = NULL, *pair = NULL;
    if (prepare(&maker, taken.at[3].items) && (list = PyList_New(0))) {
        int64_t end = append_messages(&maker, buffer, list);
        number = end < 0 ? NULL : PyLong_FromLongLong(end);
        pair = number ? PyTuple_New(2) : NULL;
    }
    if (pair) {
        PyTuple_SetItem(pair, 0, list);
        PyTuple_SetItem(pair, 1, number);
    } else {
        Py_DecRef(list);
        Py_DecRef(number);
    }
    Py_DecRef(maker.nothing);
    for (int i = 0; i < ATTRIBUTES; i++)
        Py_DecRef(maker.names[i]);
    release_arguments(&taken);
    return pair;
}
