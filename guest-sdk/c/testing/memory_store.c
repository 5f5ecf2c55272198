/* The objects of a cluster in memory, and what a server does when they are written. Entry points: the functions of memory_store.
 */

#include <string.h>

#include "memory.h"
#include "windlass_test.h"

/* What a server sets, for every object: tests compare whole objects. */
static const char *const TIME = "2026-01-01T00:00:00Z";

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

/* ---- Entries ---- */

/* Orders an entry and what a kind and a key name. */
static int compared(const memory_entry *entry, windlass_kind kind, windlass_key key) {
    int order = strcmp(entry->group, kind.group);
    order = order != 0 ? order : strcmp(entry->kind, kind.kind);
    order = order != 0 ? order : strcmp(entry->ns, key.ns == NULL ? "" : key.ns);
    return order != 0 ? order : strcmp(entry->name, key.name);
}

/* Where the entry stands, or would stand. */
static memory_entry **place_of(memory_store *store, windlass_kind kind, windlass_key key) {
    memory_entry **place = &store->first;
    while (*place != NULL && compared(*place, kind, key) < 0) {
        place = &(*place)->next;
    }
    return place;
}

static memory_entry *entry_of(const memory_store *store, windlass_kind kind, windlass_key key) {
    memory_entry *entry = *place_of((memory_store *)store, kind, key);
    return entry != NULL && compared(entry, kind, key) == 0 ? entry : NULL;
}

static memory_entry *added(memory_store *store, windlass_kind kind, windlass_key key) {
    memory_entry **place = place_of(store, kind, key), *entry = windlass_alloc(sizeof *entry);
    entry->group = windlass_format("%s", kind.group);
    entry->kind = windlass_format("%s", kind.kind);
    entry->ns = windlass_format("%s", key.ns == NULL ? "" : key.ns);
    entry->name = windlass_format("%s", key.name);
    entry->next = *place;
    *place = entry;
    return entry;
}

const json *memory_find(const memory_store *store, windlass_kind kind, windlass_key key) {
    const memory_entry *entry = entry_of(store, kind, key);
    return entry == NULL ? NULL : entry->object;
}

/* ---- Saving and removing ---- */

static bool is_set(const json *value) {
    return value != NULL && value->type != JSON_NULL;
}

static bool has_finalizers(const json *object) {
    return json_count(json_at(object, "/metadata/finalizers")) > 0;
}

static bool is_owned_only_by(const json *object, const char *uid) {
    const json *owners = json_at(object, "/metadata/ownerReferences");
    json_each(owner, owners) {
        if (!sdk_same_text(json_text(json_get(owner, "uid")), uid)) {
            return false;
        }
    }
    return json_count(owners) > 0;
}

static json *save(memory_store *store, windlass_kind kind, json *object);

static void remove_entry(memory_store *store, memory_entry *entry) {
    const json *object = entry->object;
    if (object == NULL) {
        return; /* it went with another object */
    }
    if (has_finalizers(object)) {
        if (!is_set(json_at(object, "/metadata/deletionTimestamp"))) {
            json *marked = json_set_at(json_copy(object), "/metadata/deletionTimestamp", json_string(TIME));
            save(store, (windlass_kind){entry->group, "", entry->kind}, marked);
        }
        return;
    }
    memory_entry **place = &store->first;
    while (*place != entry) {
        place = &(*place)->next;
    }
    *place = entry->next;
    entry->object = NULL;
    store->version++;

    /* The orphans are found first, because each removal changes the list. */
    const char *uid = json_text_at(object, "/metadata/uid");
    size_t count = 0, orphans = 0;
    for (const memory_entry *each = store->first; each != NULL; each = each->next) {
        count++;
    }
    memory_entry **orphaned = windlass_alloc((count + 1) * sizeof *orphaned);
    for (memory_entry *each = store->first; each != NULL; each = each->next) {
        if (is_owned_only_by(each->object, uid)) {
            orphaned[orphans++] = each;
        }
    }
    for (size_t at = 0; at < orphans; at++) {
        remove_entry(store, orphaned[at]);
    }
}

void memory_remove(memory_store *store, windlass_kind kind, windlass_key key) {
    memory_entry *entry = entry_of(store, kind, key);
    if (entry != NULL) {
        remove_entry(store, entry);
    }
}

static void keep_field(json *metadata, const json *stored, const char *name) {
    json_set(metadata, name, json_copy(json_get(stored, name)));
}

/* Stores an object, which belongs to the store from now on, with the metadata that a server sets. An unchanged object keeps its
 * version. Returns a copy. */
static json *save(memory_store *store, windlass_kind kind, json *object) {
    windlass_key key = windlass_key_of(object);
    memory_entry *entry = entry_of(store, kind, key);
    json *metadata = json_get(object, "metadata");
    if (entry != NULL) {
        const json *before = json_get(entry->object, "metadata");
        keep_field(metadata, before, "uid");
        keep_field(metadata, before, "creationTimestamp");
        keep_field(metadata, before, "resourceVersion");
        long long generation = json_integer(json_get(before, "generation"), 1);
        generation += memory_same_desired(entry->object, object) ? 0 : 1;
        json_set(metadata, "generation", json_number(generation));
        if (json_same(entry->object, object)) {
            return object;
        }
    } else {
        entry = added(store, kind, key);
        if (!is_set(json_get(metadata, "uid"))) {
            const char *uid = windlass_format("00000000-0000-4000-8000-%012lld", store->version + 1);
            json_set(metadata, "uid", json_string(uid));
        }
        json_set(metadata, "creationTimestamp", json_string(TIME));
        json_set(metadata, "generation", json_number(1));
    }
    store->version++;
    json_set(metadata, "resourceVersion", json_string(windlass_format("%lld", store->version)));
    entry->object = object;
    if (is_set(json_get(metadata, "deletionTimestamp"))) {
        remove_entry(store, entry);
    }
    return json_copy(object);
}

/* Only a server sets the time of a deletion: it stays as it is stored, if anything is. */
static void keep_deletion(json *object, const json *stored) {
    json *metadata = json_get(object, "metadata");
    json_remove(metadata, "deletionTimestamp");
    if (is_set(json_at(stored, "/metadata/deletionTimestamp"))) {
        keep_field(metadata, json_get(stored, "metadata"), "deletionTimestamp");
    }
}

void memory_put(memory_store *store, const json *object) {
    const json *stored = memory_find(store, windlass_kind_of(object), windlass_key_of(object));
    json *next = stored == NULL ? json_object() : json_copy(stored);
    json_each(value, object) {
        json_set(next, value->name, json_copy(value));
    }
    json_set(next, "metadata", memory_merged(json_get(stored, "metadata"), json_get(object, "metadata")));
    if (stored != NULL) {
        keep_deletion(next, stored);
    }
    save(store, windlass_kind_of(next), next);
}

/* ---- The writes of a guest ---- */

static windlass_error *written(memory_store *store, windlass_kind kind, bool dry_run, json *object, json **stored) {
    keep_deletion(object, memory_find(store, kind, windlass_key_of(object)));
    *stored = dry_run ? object : save(store, kind, object);
    return NULL;
}

static windlass_error *check_name(const json *object) {
    const char *name = json_text_at(object, "/metadata/name");
    return name == NULL || name[0] == '\0' ? memory_invalid("metadata.name is required") : NULL;
}

/* The version that a write names; NULL if it names none, or an empty one. */
static const json *version_of(const json *object) {
    const json *version = json_at(object, "/metadata/resourceVersion");
    return is_set(version) && !sdk_same_text(json_text(version), "") ? version : NULL;
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
    if (version_of(object) != NULL) {
        return memory_invalid("metadata.resourceVersion must not be set on objects to be created");
    }
    json *made = json_copy(object);
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
    const json *version = version_of(object);
    if (version != NULL && !json_same(version, json_at(there, "/metadata/resourceVersion"))) {
        return conflict(windlass_format("%s has changed: read it again", shown(kind, key)));
    }
    bool status = options->subresource != NULL;
    json *next = memory_combined(there, object, status);
    if (status && !is_set(json_get(object, "status"))) {
        json_remove(next, "status"); /* it is replaced whole */
    }
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
    memory_entry *entry = entry_of(store, kind, key);
    bool status = options->subresource != NULL;
    if (entry == NULL && status) {
        return not_found(kind, key);
    }
    json *next = json_copy(object);
    if (entry != NULL) {
        next = memory_combined(entry->object, memory_applied(entry->object, entry->applied, object), status);
    }
    written(store, kind, options->dry_run, next, stored);
    entry = options->dry_run ? NULL : entry_of(store, kind, key);
    if (entry != NULL) {
        entry->applied = json_copy(object);
    }
    return NULL;
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
