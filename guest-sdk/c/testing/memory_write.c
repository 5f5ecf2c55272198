/* The writes of a guest to a cluster in memory. Entry points: memory_create, memory_update, memory_patch, memory_apply and
 * memory_delete. */

#include "memory.h"
#include "windlass_test.h"

/* ---- Errors ---- */

static const char *shown(windlass_kind kind, windlass_key key) {
    return windlass_format("%s %s", kind.kind, windlass_key_text(key));
}

windlass_error *memory_invalid(const char *message) {
    return windlass_error_new(WINDLASS_INVALID, 422, message);
}

static windlass_error *conflict(const char *message) {
    return windlass_error_new(WINDLASS_CONFLICT, 409, message);
}

static windlass_error *not_found(windlass_kind kind, windlass_key key) {
    return windlass_error_new(WINDLASS_NOT_FOUND, 404, windlass_format("%s not found", shown(kind, key)));
}

/* ---- The writes of a guest ---- */

static bool adds_finalizer(const json *there, const json *object) {
    json_each(name, json_at(object, "/metadata/finalizers")) {
        bool known = false;
        json_each(each, json_at(there, "/metadata/finalizers")) {
            known = known || json_same(each, name);
        }
        if (!known) {
            return true;
        }
    }
    return false;
}

static windlass_error *written(memory_store *store, windlass_kind kind, bool dry_run, json *object, json **stored) {
    const json *there = memory_find(store, kind, windlass_key_of(object));
    memory_keep_deletion(object, there);
    if (memory_is_deleting(there) && adds_finalizer(there, object)) {
        return memory_invalid("metadata.finalizers: no new finalizers can be added if the object is being deleted");
    }
    *stored = dry_run ? object : memory_save(store, kind, object);
    return NULL;
}

static windlass_error *check_name(const json *object) {
    const char *name = json_text_at(object, "/metadata/name");
    return name == NULL || name[0] == '\0' ? memory_invalid("metadata.name is required") : NULL;
}

/* Whether a write names a field of the metadata: an empty text is none. */
static bool names(const json *value) {
    return value != NULL && value->type != JSON_NULL && !sdk_same_text(json_text(value), "");
}

/* Refuses a write of another object, or of another version, than the one that is there, if any is. */
static windlass_error *check_meant(windlass_kind kind, const json *there, const json *object) {
    const char *name = shown(kind, windlass_key_of(object));
    const json *uid = json_at(object, "/metadata/uid"), *version = json_at(object, "/metadata/resourceVersion");
    if (names(uid) && (there == NULL || !json_same(uid, json_at(there, "/metadata/uid")))) {
        return conflict(windlass_format("%s is not the object with the uid %s", name, json_print(json_copy(uid))));
    }
    if (names(version) && there != NULL && !json_same(version, json_at(there, "/metadata/resourceVersion"))) {
        return conflict(windlass_format("%s has changed: read it again", name));
    }
    return NULL;
}

windlass_error *memory_create(memory_store *store, windlass_kind kind, const json *object, bool dry_run, json **stored) {
    windlass_error *error = check_name(object);
    if (error != NULL) {
        return error;
    }
    windlass_key key = windlass_key_of(object);
    if (memory_find(store, kind, key) != NULL) {
        return windlass_error_new(WINDLASS_ALREADY_EXISTS, 409, windlass_format("%s already exists", shown(kind, key)));
    }
    if (names(json_at(object, "/metadata/resourceVersion"))) {
        return memory_invalid("metadata.resourceVersion must not be set on objects to be created");
    }
    json *made = memory_combined(NULL, object, false);
    json_remove(json_get(made, "metadata"), "uid");
    return written(store, kind, dry_run, made, stored);
}

windlass_error *memory_update(memory_store *store, windlass_kind kind, const json *object, const windlass_write_options *options,
                              json **stored) {
    windlass_error *error = check_name(object);
    if (error != NULL) {
        return error;
    }
    windlass_key key = windlass_key_of(object);
    const json *there = memory_find(store, kind, key);
    if (there == NULL) {
        return not_found(kind, key);
    }
    error = check_meant(kind, there, object);
    if (error != NULL) {
        return error;
    }
    json *next = memory_combined(there, object, options->subresource != NULL);
    return written(store, kind, options->dry_run, next, stored);
}

windlass_error *memory_patch(memory_store *store, windlass_kind kind, windlass_key key, const json *patch,
                             const windlass_write_options *options, json **stored) {
    const json *there = memory_find(store, kind, key);
    return there == NULL ? not_found(kind, key) : memory_update(store, kind, memory_merged(there, patch), options, stored);
}

windlass_error *memory_apply(memory_store *store, windlass_kind kind, const json *object, const windlass_write_options *options,
                             json **stored) {
    windlass_error *error = check_name(object);
    if (error != NULL) {
        return error;
    }
    windlass_key key = windlass_key_of(object);
    memory_entry *entry = memory_entry_of(store, kind, key);
    const json *there = entry == NULL ? NULL : entry->object, *next = object;
    bool status = options->subresource != NULL;
    if (entry == NULL && status) {
        return not_found(kind, key);
    }
    error = check_meant(kind, there, object);
    if (error != NULL) {
        return error;
    }
    if (entry != NULL) {
        next = memory_applied(there, entry->applied[status], object);
    }
    error = written(store, kind, options->dry_run, memory_combined(there, next, status), stored);
    entry = error != NULL || options->dry_run ? NULL : memory_entry_of(store, kind, key);
    if (entry != NULL) {
        entry->applied[status] = json_copy(object);
    }
    return error;
}

windlass_error *memory_delete(memory_store *store, windlass_kind kind, windlass_key key, const windlass_delete_options *options) {
    const json *there = memory_find(store, kind, key);
    if (there == NULL) {
        return not_found(kind, key);
    }
    const char *uid = json_text_at(there, "/metadata/uid"), *version = json_text_at(there, "/metadata/resourceVersion");
    if ((options->uid != NULL && !sdk_same_text(options->uid, uid)) ||
        (options->resource_version != NULL && !sdk_same_text(options->resource_version, version))) {
        return conflict(windlass_format("%s is not the object that the precondition names", shown(kind, key)));
    }
    if (!options->dry_run) {
        memory_remove(store, kind, key);
    }
    return NULL;
}
