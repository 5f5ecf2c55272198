/* The objects of a cluster in memory, and what a server does when they change. Entry points: memory_find, memory_put, memory_save
 * and memory_remove. */

#include <string.h>

#include "memory.h"

/* What a server sets, for every object: tests compare whole objects. */
static const char *const TIME = "2026-01-01T00:00:00Z";

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

memory_entry *memory_entry_of(const memory_store *store, windlass_kind kind, windlass_key key) {
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
    const memory_entry *entry = memory_entry_of(store, kind, key);
    return entry == NULL ? NULL : entry->object;
}

/* ---- Saving and removing ---- */

static bool is_set(const json *value) {
    return value != NULL && value->type != JSON_NULL;
}

bool memory_is_deleting(const json *object) {
    return is_set(json_at(object, "/metadata/deletionTimestamp"));
}

static bool has_finalizers(const json *object) {
    return json_count(json_at(object, "/metadata/finalizers")) > 0;
}

/* The kind of an entry, which has no version. */
static windlass_kind kind_of(const memory_entry *entry) {
    return (windlass_kind){entry->group, "", entry->kind};
}

static void remove_entry(memory_store *store, memory_entry *entry);

/* Takes an owner that is gone out of an object, which goes if it was the last one. */
static void disown(memory_store *store, memory_entry *entry, const char *uid) {
    const json *owners = entry->object == NULL ? NULL : json_at(entry->object, "/metadata/ownerReferences");
    json *others = json_array();
    json_each(owner, owners) {
        if (!sdk_same_text(json_text(json_get(owner, "uid")), uid)) {
            json_append(others, json_copy(owner));
        }
    }
    size_t left = json_count(others);
    if (left == json_count(owners)) {
        return;
    }
    json *next = json_copy(entry->object), *metadata = json_get(next, "metadata");
    if (left > 0) {
        json_set(metadata, "ownerReferences", others);
    } else {
        json_remove(metadata, "ownerReferences");
    }
    memory_save(store, kind_of(entry), next);
    if (left == 0) {
        remove_entry(store, entry);
    }
}

static void remove_entry(memory_store *store, memory_entry *entry) {
    const json *object = entry->object;
    if (object == NULL) {
        return; /* it went with another object */
    }
    if (has_finalizers(object)) {
        if (!memory_is_deleting(object)) {
            json *marked = json_set_at(json_copy(object), "/metadata/deletionTimestamp", json_string(TIME));
            memory_save(store, kind_of(entry), marked);
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

    /* The entries are found first, because each removal changes the list. */
    size_t count = 0;
    for (const memory_entry *each = store->first; each != NULL; each = each->next) {
        count++;
    }
    memory_entry **left = windlass_alloc((count + 1) * sizeof *left);
    for (memory_entry *each = store->first, **at = left; each != NULL; each = each->next) {
        *at++ = each;
    }
    for (size_t at = 0; at < count; at++) {
        disown(store, left[at], json_text_at(object, "/metadata/uid"));
    }
}

void memory_remove(memory_store *store, windlass_kind kind, windlass_key key) {
    memory_entry *entry = memory_entry_of(store, kind, key);
    if (entry != NULL) {
        remove_entry(store, entry);
    }
}

static void keep_field(json *metadata, const json *stored, const char *name) {
    json_set(metadata, name, json_copy(json_get(stored, name)));
}

json *memory_save(memory_store *store, windlass_kind kind, json *object) {
    windlass_key key = windlass_key_of(object);
    memory_entry *entry = memory_entry_of(store, kind, key);
    json *metadata = json_get(object, "metadata");
    if (entry != NULL) {
        const json *before = json_get(entry->object, "metadata");
        keep_field(metadata, before, "uid");
        keep_field(metadata, before, "creationTimestamp");
        keep_field(metadata, before, "resourceVersion");
        long long generation = json_integer(json_get(before, "generation"), 1);
        bool marked = memory_is_deleting(object) && !memory_is_deleting(entry->object);
        generation += marked || !memory_same_desired(entry->object, object) ? 1 : 0;
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
    if (memory_is_deleting(object)) {
        remove_entry(store, entry);
    }
    return json_copy(object);
}

void memory_keep_deletion(json *object, const json *stored) {
    json *metadata = json_get(object, "metadata");
    json_remove(metadata, "deletionTimestamp");
    if (memory_is_deleting(stored)) {
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
        memory_keep_deletion(next, stored);
    }
    memory_save(store, windlass_kind_of(next), next);
}
