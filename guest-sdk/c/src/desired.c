/* Writes that happen only if something differs. */

#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "windlass.h"

/* The annotation with the fingerprint of what was applied, as a JSON pointer: by it a field is found that is no longer desired.
 */
#define APPLIED "/metadata/annotations/windlass.dev~1applied"

windlass_error *sdk_wrote(windlass_written *written, windlass_effect effect, json *object) {
    if (written != NULL) {
        *written = (windlass_written){effect, object};
    }
    return NULL;
}

windlass_error *windlass_ensure(windlass_cluster *cluster, const json *object, windlass_written *written) {
    json *desired = sdk_stamped(json_copy(object)), *present, *stored;
    windlass_error *error = windlass_get(cluster, windlass_kind_of(desired), windlass_key_of(desired), NULL, &present);
    if (error != NULL) {
        return error;
    }
    if (present != NULL && sdk_covers(present, desired)) {
        return sdk_wrote(written, WINDLASS_UNCHANGED, present);
    }
    error = windlass_apply(cluster, desired, &(windlass_write_options){.force = true}, &stored);
    if (error != NULL) {
        return error;
    }
    if (present == NULL) {
        return sdk_wrote(written, WINDLASS_CREATED, stored);
    }
    const char *before = json_text_at(present, "/metadata/resourceVersion");
    bool same = sdk_same_text(before, json_text_at(stored, "/metadata/resourceVersion"));
    return sdk_wrote(written, same ? WINDLASS_UNCHANGED : WINDLASS_UPDATED, stored);
}

windlass_error *windlass_create_or_update(windlass_cluster *cluster, windlass_kind kind, windlass_key key,
                                          void (*change)(json *object, void *context), void *context, windlass_written *written) {
    json *present, *stored;
    windlass_error *error = windlass_get(cluster, kind, key, NULL, &present);
    if (error != NULL) {
        return error;
    }
    json *object = present == NULL ? windlass_object(kind, key) : json_copy(present);
    change(object, context);
    if (present != NULL && json_same(present, object)) {
        return sdk_wrote(written, WINDLASS_UNCHANGED, present);
    }
    if (present == NULL) {
        error = windlass_create(cluster, object, NULL, &stored);
        return error != NULL ? error : sdk_wrote(written, WINDLASS_CREATED, stored);
    }
    error = windlass_update(cluster, object, NULL, &stored);
    return error != NULL ? error : sdk_wrote(written, WINDLASS_UPDATED, stored);
}

windlass_error *windlass_set_status(windlass_cluster *cluster, windlass_kind kind, windlass_key key, const json *status,
                                    windlass_written *written) {
    json *present;
    windlass_error *error = windlass_get(cluster, kind, key, NULL, &present);
    return error != NULL ? error : sdk_write_status(cluster, kind, key, present, status, written);
}

static bool is_object(const json *value) {
    return value != NULL && value->type == JSON_OBJECT;
}

static bool is_null(const json *value) {
    return value == NULL || value->type == JSON_NULL;
}

/* The merge patch that gives present the fields of desired. */
static json *difference(const json *present, const json *desired) {
    json *patch = json_object();
    json_each(value, desired) {
        const json *before = json_get(present, value->name);
        if (is_object(before) && is_object(value)) {
            json *inner = difference(before, value);
            if (json_count(inner) > 0) {
                json_set(patch, value->name, inner);
            }
        } else if (is_null(value) ? !is_null(before) : before == NULL || !json_same(before, value)) {
            json_set(patch, value->name, json_copy(value));
        }
    }
    return patch;
}

windlass_error *sdk_write_status(windlass_cluster *cluster, windlass_kind kind, windlass_key key, json *present,
                                 const json *status, windlass_written *written) {
    json *changed = difference(json_get(present, "status"), status), *patch = json_object(), *stored;
    if (present != NULL && json_count(changed) == 0) {
        return sdk_wrote(written, WINDLASS_UNCHANGED, present);
    }
    const char *version = json_text_at(present, "/metadata/resourceVersion");
    if (version != NULL) {
        json_set_at(patch, "/metadata/resourceVersion", json_string(version));
    }
    json_set(patch, "status", changed);
    windlass_write_options options = {.subresource = "status"};
    windlass_error *error = windlass_patch(cluster, kind, key, WINDLASS_MERGE, patch, &options, &stored);
    return error != NULL ? error : sdk_wrote(written, WINDLASS_UPDATED, stored);
}

json *sdk_stamped(json *object) {
    return json_set_at(object, APPLIED, json_string(sdk_fingerprint(object)));
}

bool sdk_covers(const json *present, const json *desired) {
    if (is_null(desired)) {
        return is_null(present);
    }
    if (present == NULL || present->type != desired->type) {
        return false;
    }
    if (desired->type == JSON_OBJECT) {
        json_each(each, desired) {
            if (!sdk_covers(json_get(present, each->name), each)) {
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
        if (item == NULL || !sdk_covers(item, each)) {
            return false;
        }
        item = item->next;
    }
    return item == NULL;
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
