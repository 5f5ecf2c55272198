/* Writes that happen only if something differs. */

#include "backend.h"
#include "windlass.h"

windlass_error *sdk_wrote(windlass_written *written, windlass_effect effect, json *object) {
    if (written != NULL) {
        *written = (windlass_written){effect, object};
    }
    return NULL;
}

windlass_error *windlass_ensure(windlass_cluster *cluster, const json *object, windlass_written *written) {
    sdk_desired desired = sdk_desired_of(object);
    windlass_write_options force = {.force = true};
    json *present, *stored;
    windlass_error *error =
        windlass_get(cluster, windlass_kind_of(desired.object), windlass_key_of(desired.object), NULL, &present);
    if (error != NULL) {
        return error;
    }
    if (present != NULL && sdk_held_by(&desired, present)) {
        return sdk_wrote(written, WINDLASS_UNCHANGED, present);
    }
    error = windlass_apply(cluster, sdk_next(&desired, present), &force, &stored);
    if (error == NULL && !sdk_held_by(&desired, stored)) {
        error = windlass_apply(cluster, sdk_noted(&desired, stored), &force, &stored);
    }
    return error != NULL ? error : sdk_wrote(written, present == NULL ? WINDLASS_CREATED : WINDLASS_UPDATED, stored);
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
    if (error != NULL && error->code == WINDLASS_NOT_FOUND && present != NULL) {
        /* A server answers the same for an object that is gone. */
        json *there = NULL;
        windlass_error *failed = windlass_get(cluster, kind, key, &(windlass_get_options){.live = true}, &there);
        if (failed != NULL || there != NULL) {
            const char *why = "its kind has no subresource status, which its definition has to name";
            const char *message = windlass_format("%s: %s", sdk_named(present), why);
            return failed != NULL ? failed : sdk_failure(WINDLASS_INVALID, "Invalid", message);
        }
    }
    return error != NULL ? error : sdk_wrote(written, WINDLASS_UPDATED, stored);
}
