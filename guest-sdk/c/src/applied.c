/* What an object should be, and whether it is so already.
 *
 * A server may keep what is applied in another form: without an empty value, 1000m as 1, with a default for null. To compare with
 * what it keeps would be to apply at every reconcile. So an annotation of the object has two fingerprints: of what was applied,
 * and, where the server keeps it in another form, of what the object then had at those fields. The object is as desired while
 * neither has changed. */

#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "windlass.h"

/* The annotation with the fingerprints. */
#define APPLIED "windlass.dev/applied"
#define APPLIED_POINTER "/metadata/annotations/windlass.dev~1applied"

/* The bytes of a fingerprint. */
enum { PRINT = 8 };

static bool is_of(const json *value, json_type type) {
    return value != NULL && value->type == type;
}

static bool is_null(const json *value) {
    return value == NULL || value->type == JSON_NULL;
}

static json *base64(const json *text) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *made = windlass_alloc((text->length + 2) / 3 * 4 + 1), *to = made;
    const unsigned char *bytes = (const unsigned char *)text->text;
    for (size_t at = 0; at < text->length; at += 3) {
        size_t left = text->length - at;
        uint32_t bits = (uint32_t)bytes[at] << 16;
        bits |= left > 1 ? (uint32_t)bytes[at + 1] << 8 : 0;
        bits |= left > 2 ? bytes[at + 2] : 0;
        for (size_t digit = 0; digit < 4; digit++) {
            *to++ = digit <= left ? digits[bits >> (18 - 6 * digit) & 63] : '=';
        }
    }
    return json_string(made);
}

/* Gives the data of a Secret the one form in which it is kept. */
static void encode(json *object) {
    const char *version = json_text_at(object, "/apiVersion"), *kind = json_text_at(object, "/kind");
    const json *texts = json_get(object, "stringData");
    if (!is_of(texts, JSON_OBJECT) || !sdk_same_text(version, "v1") || !sdk_same_text(kind, "Secret")) {
        return;
    }
    json *data = is_of(json_get(object, "data"), JSON_OBJECT) ? json_copy(json_get(object, "data")) : json_object();
    json_each(text, texts) {
        if (text->type != JSON_STRING) {
            return;
        }
        json_set(data, text->name, base64(text));
    }
    json_set(object, "data", data);
    json_remove(object, "stringData");
}

sdk_desired sdk_desired_of(const json *object) {
    json *made = json_copy(object), *metadata = json_get(made, "metadata"), *status = json_get(made, "status");
    json_remove(metadata, "creationTimestamp");
    if (is_of(json_get(metadata, "annotations"), JSON_OBJECT)) {
        json_remove(json_get(metadata, "annotations"), APPLIED);
    } else {
        json_remove(metadata, "annotations"); /* the note is among them, so that null would not be what the object has */
    }
    if (is_null(status) || (status->type == JSON_OBJECT && status->first == NULL)) {
        json_remove(made, "status");
    }
    encode(made);
    return (sdk_desired){made, sdk_fingerprint(made)};
}

/* Whether an object has everything that is desired. */
static bool covers(const json *present, const json *desired) {
    if (is_null(desired)) {
        return is_null(present);
    }
    if (present == NULL || present->type != desired->type) {
        return false;
    }
    if (desired->type == JSON_OBJECT) {
        json_each(each, desired) {
            if (!covers(json_get(present, each->name), each)) {
                return false;
            }
        }
        return true;
    }
    if (desired->type != JSON_ARRAY) {
        return json_same(present, desired);
    }
    const json *item = present->first;
    json_each(each, desired) {
        if (item == NULL || !covers(item, each)) {
            return false;
        }
        item = item->next;
    }
    return item == NULL;
}

/* What an object has at the fields that are desired. */
static json *kept_of(const json *present, const json *desired) {
    if (is_of(present, JSON_OBJECT) && is_of(desired, JSON_OBJECT)) {
        json *kept = json_object();
        json_each(each, desired) {
            json_set(kept, each->name, kept_of(json_get(present, each->name), each));
        }
        return kept;
    }
    if (is_of(present, JSON_ARRAY) && is_of(desired, JSON_ARRAY) && json_count(present) == json_count(desired)) {
        json *kept = json_array();
        const json *item = present->first;
        json_each(each, desired) {
            json_append(kept, kept_of(item, each));
            item = item->next;
        }
        return kept;
    }
    return present == NULL ? json_null() : json_copy(present);
}

/* The fingerprint of what the server made of the fields, if these fields were applied; NULL: it keeps them as they are. */
static bool was_applied(const sdk_desired *desired, const json *present, const char **kept) {
    const char *note = json_text_at(present, APPLIED_POINTER);
    *kept = NULL;
    if (note == NULL || strncmp(note, desired->print, PRINT) != 0 || (note[PRINT] != '\0' && note[PRINT] != '-')) {
        return false;
    }
    *kept = note[PRINT] == '-' ? note + PRINT + 1 : NULL;
    return true;
}

bool sdk_was_applied_to(const sdk_desired *desired, const json *present) {
    const char *kept;
    return was_applied(desired, present, &kept);
}

bool sdk_held_by(const sdk_desired *desired, const json *present) {
    const char *kept;
    if (!was_applied(desired, present, &kept)) {
        return false;
    }
    if (kept == NULL) {
        return covers(present, desired->object);
    }
    /* Only the form that was noted: else a change to one that the server kept before would not be seen. */
    return sdk_same_text(kept, sdk_fingerprint(kept_of(present, desired->object)));
}

static json *stamped(const sdk_desired *desired, const char *kept) {
    const char *note = kept == NULL ? desired->print : windlass_format("%s-%s", desired->print, kept);
    return json_set_at(json_copy(desired->object), APPLIED_POINTER, json_string(note));
}

json *sdk_next(const sdk_desired *desired, const json *present) {
    const char *kept;
    was_applied(desired, present, &kept);
    return stamped(desired, kept);
}

json *sdk_noted(const sdk_desired *desired, const json *stored) {
    bool is_same = covers(stored, desired->object);
    return stamped(desired, is_same ? NULL : sdk_fingerprint(kept_of(stored, desired->object)));
}

static void feed(uint32_t *hash, const char *bytes, size_t length) {
    for (size_t at = 0; at < length; at++) {
        *hash = (*hash ^ (unsigned char)bytes[at]) * 0x01000193u;
    }
}

static void feed_text(uint32_t *hash, const char *text, size_t length) {
    feed(hash, "\"", 1);
    feed(hash, text, length);
    feed(hash, "", 1);
}

static int by_name(const void *one, const void *other) {
    return strcmp((*(const json *const *)one)->name, (*(const json *const *)other)->name);
}

static void walk(uint32_t *hash, const json *value) {
    switch (value->type) {
    case JSON_NULL:
        feed(hash, "n", 1);
        return;
    case JSON_BOOL:
        feed(hash, value->boolean ? "t" : "f", 1);
        return;
    case JSON_NUMBER:
        feed(hash, "#", 1);
        feed(hash, value->text, value->length);
        feed(hash, ";", 1);
        return;
    case JSON_STRING:
        feed_text(hash, value->text, value->length);
        return;
    case JSON_ARRAY:
        feed(hash, "[", 1);
        json_each(item, value) {
            walk(hash, item);
        }
        feed(hash, "]", 1);
        return;
    case JSON_OBJECT:
        break;
    }
    size_t count = json_count(value), at = 0;
    const json **fields = windlass_alloc((count + 1) * sizeof *fields);
    json_each(field, value) {
        fields[at++] = field;
    }
    qsort(fields, count, sizeof *fields, by_name);
    feed(hash, "{", 1);
    for (at = 0; at < count; at++) {
        feed_text(hash, fields[at]->name, strlen(fields[at]->name));
        walk(hash, fields[at]);
    }
    feed(hash, "}", 1);
}

const char *sdk_fingerprint(const json *value) {
    uint32_t hash = 0x811c9dc5u;
    walk(&hash, value);
    return windlass_format("%08x", (unsigned)hash);
}
