/* The arguments of a call, taken by a pattern of one letter each. */

#ifndef WAKELOG_ARGUMENTS_H
#define WAKELOG_ARGUMENTS_H

#include <stdint.h>

#include "stable_abi.h"

#define ARGUMENTS_MAX 20

struct argument {
    int64_t number;
    void *items;   /* of a buffer, aligned for them; or the object; never NULL */
    int64_t count; /* of whole items */
};

struct arguments {
    struct argument at[ARGUMENTS_MAX];
    Py_buffer views[ARGUMENTS_MAX];
    int views_count;
};

/* Take arguments as the pattern says: n is a number; o is an object, which is not held; b, i and l are buffers of bytes, of 32-bit
   and of 64-bit integers; B, I and L may be written. Return 0 with an error set if they are
   others. What was taken has to be released. */
int take_arguments(struct arguments *arguments, const char *pattern, PyObject *const *objects,
                   Py_ssize_t count);
void release_arguments(struct arguments *arguments);

/* Release arguments, and set a ValueError. Return NULL. */
PyObject *refuse_arguments(struct arguments *arguments, const char *why);

/* Release arguments, and return numbers as a tuple; one number by itself. */
PyObject *return_numbers(struct arguments *arguments, int count, const int64_t *numbers);

PyObject *py_encode_list(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *py_decode_record(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *py_make_messages(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* The functions over columns of records. */
extern PyMethodDef COLUMN_FUNCTIONS[];

#endif
