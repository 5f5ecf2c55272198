/* JSON: the tree. json_text.c reads and writes it. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "windlass.h"

static json *value_of(json_type type) {
    json *made = windlass_alloc(sizeof(json));
    made->type = type;
    return made;
}

static char *copied(const char *text, size_t length) {
    char *copy = windlass_alloc(length + 1);
    memcpy(copy, text, length);
    return copy;
}

json *json_object(void) {
    return value_of(JSON_OBJECT);
}

json *json_array(void) {
    return value_of(JSON_ARRAY);
}

json *json_null(void) {
    return value_of(JSON_NULL);
}

json *json_string(const char *text) {
    if (text == NULL) {
        return json_null();
    }
    json *made = value_of(JSON_STRING);
    made->length = strlen(text);
    made->text = copied(text, made->length);
    return made;
}

json *json_number(long long value) {
    json *made = value_of(JSON_NUMBER);
    made->text = windlass_format("%lld", value);
    made->length = strlen(made->text);
    return made;
}

json *json_bool(bool value) {
    json *made = value_of(JSON_BOOL);
    made->boolean = value;
    return made;
}

/* Appends a value that has no parent yet. */
static void link_last(json *into, json *value) {
    value->linked = true;
    if (into->last == NULL) {
        into->first = value;
    } else {
        into->last->next = value;
    }
    into->last = value;
}

json *json_copy(const json *value) {
    if (value == NULL) {
        return json_null();
    }
    json *made = value_of(value->type);
    made->boolean = value->boolean;
    made->length = value->length;
    made->text = value->text == NULL ? NULL : copied(value->text, value->length);
    json_each(part, value) {
        json *copy = json_copy(part);
        copy->name = part->name == NULL ? NULL : copied(part->name, strlen(part->name));
        link_last(made, copy);
    }
    return made;
}

json *json_get(const json *object, const char *name) {
    if (object == NULL || object->type != JSON_OBJECT) {
        return NULL;
    }
    json_each(member, object) {
        if (strcmp(member->name, name) == 0) {
            return member;
        }
    }
    return NULL;
}

/* The first part of a pointer, decoded; the pointer is moved past it. */
static char *pointer_part(const char **pointer) {
    const char *from = *pointer + 1;
    size_t length = strcspn(from, "/");
    char *part = windlass_alloc(length + 1), *to = part;
    for (const char *at = from; at < from + length; at++) {
        if (at[0] == '~' && (at[1] == '0' || at[1] == '1')) {
            at++;
            *to++ = *at == '0' ? '~' : '/';
        } else {
            *to++ = *at;
        }
    }
    *pointer = from + length;
    return part;
}

static json *item(const json *array, const char *part) {
    char *end;
    unsigned long index = strtoul(part, &end, 10);
    if (*part == '\0' || *end != '\0') {
        return NULL;
    }
    json_each(found, array) {
        if (index-- == 0) {
            return found;
        }
    }
    return NULL;
}

json *json_at(const json *value, const char *pointer) {
    windlass_mark_t mark = windlass_mark();
    while (value != NULL && *pointer == '/') {
        char *part = pointer_part(&pointer);
        value = value->type == JSON_ARRAY ? item(value, part) : json_get(value, part);
    }
    windlass_release(mark);
    return (json *)value;
}

const char *json_text(const json *value) {
    return value == NULL || value->type != JSON_STRING ? NULL : value->text;
}

const char *json_text_at(const json *value, const char *pointer) {
    return json_text(json_at(value, pointer));
}

long long json_integer(const json *value, long long otherwise) {
    if (value == NULL || value->type != JSON_NUMBER || strpbrk(value->text, ".eE") != NULL) {
        return otherwise;
    }
    errno = 0;
    long long number = strtoll(value->text, NULL, 10);
    return errno == ERANGE ? otherwise : number;
}

bool json_is_true(const json *value) {
    return value != NULL && value->type == JSON_BOOL && value->boolean;
}

size_t json_count(const json *value) {
    size_t count = 0;
    json_each(part, value) {
        count++;
    }
    return count;
}

bool json_same(const json *one, const json *other) {
    if (one == NULL || other == NULL) {
        return one == other;
    }
    if (one->type != other->type || one->boolean != other->boolean || one->length != other->length) {
        return false;
    }
    if (one->text != NULL && memcmp(one->text, other->text, one->length) != 0) {
        return false;
    }
    if (json_count(one) != json_count(other)) {
        return false;
    }
    const json *beside = other->first;
    json_each(part, one) {
        if (!json_same(part, one->type == JSON_OBJECT ? json_get(other, part->name) : beside)) {
            return false;
        }
        beside = beside->next;
    }
    return true;
}

/* A value without a parent. */
static json *loose(json *value) {
    return value == NULL || value->linked ? json_copy(value) : value;
}

static void must_be(const json *value, json_type type, const char *what) {
    if (value == NULL || value->type != type) {
        fprintf(stderr, "windlass: %s\n", what);
        abort();
    }
}

json *json_append(json *array, json *value) {
    must_be(array, JSON_ARRAY, "json_append: that is no array");
    link_last(array, loose(value));
    return array;
}

void json_remove(json *object, const char *name) {
    must_be(object, JSON_OBJECT, "json_remove: that is no object");
    json *before = NULL;
    json_each(member, object) {
        if (strcmp(member->name, name) == 0) {
            if (before == NULL) {
                object->first = member->next;
            } else {
                before->next = member->next;
            }
            if (object->last == member) {
                object->last = before;
            }
            member->next = NULL;
            member->linked = false;
            return;
        }
        before = member;
    }
}

json *json_set(json *object, const char *name, json *value) {
    must_be(object, JSON_OBJECT, "json_set: that is no object");
    value = loose(value);
    value->name = copied(name, strlen(name));
    json *earlier = json_get(object, name);
    if (earlier == NULL) {
        link_last(object, value);
        return object;
    }
    json **place = &object->first;
    while (*place != earlier) {
        place = &(*place)->next;
    }
    *place = value;
    value->next = earlier->next;
    value->linked = true;
    if (object->last == earlier) {
        object->last = value;
    }
    earlier->next = NULL;
    earlier->linked = false;
    return object;
}

json *json_set_at(json *value, const char *pointer, json *part) {
    json *at = value;
    while (*pointer == '/') {
        char *name = pointer_part(&pointer);
        if (*pointer != '/') {
            json_set(at, name, part);
            return value;
        }
        json *below = at->type == JSON_ARRAY ? item(at, name) : json_get(at, name);
        if (below == NULL) {
            below = json_object();
            json_set(at, name, below);
        }
        at = below;
    }
    must_be(NULL, JSON_OBJECT, "json_set_at: the pointer names nothing");
    return value;
}
