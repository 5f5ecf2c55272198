/*
 * JSON for guests: a tree that is read, changed and written.
 *
 * Trees live in the memory of the call, as all results of the SDK: nothing is freed by hand (see windlass.h).
 * Numbers are kept as they were written, so that values which a guest does not change stay the same.
 * Functions that look up a value accept NULL and then return NULL, so that look-ups can be chained.
 */
#ifndef WINDLASS_JSON_H
#define WINDLASS_JSON_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The type of a value. */
typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_type;

/* A value. The fields are for reading; json_set and the like change a tree. */
typedef struct json {
    json_type type;
    /* Of a bool. */
    bool boolean;
    /* Whether the value is part of another value. */
    bool linked;
    /* Of a string: its UTF-8 text, with a NUL after its end. Of a number: its digits. */
    const char *text;
    /* Bytes of text. */
    size_t length;
    /* The value's name in its object; NULL in an array. */
    const char *name;
    /* Of an array or object: the first and the last value. */
    struct json *first, *last;
    /* The value after it in its array or object. */
    struct json *next;
} json;

/* Goes through an array or object: json_each(item, items) { ... } */
#define json_each(item, of) for (json *item = (of) == NULL ? NULL : (of)->first; item != NULL; item = item->next)

/* Reads text. Returns NULL if it is not JSON, and then sets why, unless why is NULL. At most 128 nested values. */
json *json_parse(const char *text, size_t length, const char **why);
/* Reads a constant of the program, and ends the program if it is not JSON. */
json *json_literal(const char *text);
/* Writes a value, without spaces. */
char *json_print(const json *value);

/* New values. */
json *json_object(void);
json *json_array(void);
/* A copy of the text; null if it is NULL, as json_text_at returns where there is none. */
json *json_string(const char *text);
json *json_number(long long value);
json *json_bool(bool value);
json *json_null(void);
json *json_copy(const json *value);

/* A member of an object; NULL if there is none, or it is no object. */
json *json_get(const json *object, const char *name);
/* The value at a JSON pointer: "/spec/replicas", "/spec/containers/0/image". A / in a name is written ~1. */
json *json_at(const json *value, const char *pointer);
/* The text of a string; NULL for other values. */
const char *json_text(const json *value);
/* The same for the value at a pointer. */
const char *json_text_at(const json *value, const char *pointer);
/* The value of a whole number that a long long holds; otherwise of anything else. */
long long json_integer(const json *value, long long otherwise);
/* Whether it is the value true. */
bool json_is_true(const json *value);
/* The number of values in an array or object; 0 for other values. */
size_t json_count(const json *value);
/* Whether two values are equal; the order of members does not matter. */
bool json_same(const json *one, const json *other);

/* Sets or replaces a member of an object, and returns the object. A value that is already part of a tree is copied. */
json *json_set(json *object, const char *name, json *value);
/* Sets the value at a pointer, makes the missing objects on the path, and returns the whole tree. */
json *json_set_at(json *value, const char *pointer, json *part);
/* Adds a value to an array, and returns the array. */
json *json_append(json *array, json *value);
/* Removes a member from an object, if it exists. */
void json_remove(json *object, const char *name);

#ifdef __cplusplus
}
#endif

#endif
