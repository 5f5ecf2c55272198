/*
 * The parts of a cluster in memory, which windlass_memory.c has: its answers (memory_answer.c), its objects (memory_store.c),
 * the writes of a guest (memory_write.c), the fields of objects (memory_fields.c) and selectors (memory_select.c). Entry point:
 * memory_answer.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include "backend.h"

typedef struct memory_store memory_store;

/* Answers a call of a guest. */
windlass_reply memory_answer(memory_store *store, const windlass_operation *operation);

/* ---- Objects ---- */

typedef struct memory_entry {
    const char *group, *kind, *ns, *name;
    /* NULL once it is deleted. It is replaced, and never changed in place. */
    const json *object;
    /* What was applied last to the object and to its status; NULL if nothing was. Fields that are no longer applied go. */
    const json *applied[2];
    struct memory_entry *next;
} memory_entry;

struct memory_store {
    /* Sorted by group, kind, namespace and name, without the version: an object can be read in several. */
    memory_entry *first;
    /* Grows with every change of any object. */
    long long version;
};

/* An object as it is stored, which the caller must not change; NULL if there is none. */
const json *memory_find(const memory_store *store, windlass_kind kind, windlass_key key);
/* Stores an object of the test, without preconditions. */
void memory_put(memory_store *store, const json *object);
/* Stores an object, which belongs to the store from now on, with the metadata that a server sets. An unchanged object keeps its
 * version. Returns a copy. */
json *memory_save(memory_store *store, windlass_kind kind, json *object);
/* NULL if there is none. */
memory_entry *memory_entry_of(const memory_store *store, windlass_kind kind, windlass_key key);
/* Whether an object, which may be NULL, is being deleted. */
bool memory_is_deleting(const json *object);
/* Gives an object the time of deletion of the stored one, if any is: only a server sets it. */
void memory_keep_deletion(json *object, const json *stored);
/* Deletes an object, or marks it for deletion if finalizers hold it. Then deletes what has no other owner. */
void memory_remove(memory_store *store, windlass_kind kind, windlass_key key);

/* The writes of a guest. A subresource is NULL or "status". Each sets the object as it is stored, or would be without dry_run. */
windlass_error *memory_create(memory_store *store, windlass_kind kind, const json *object, bool dry_run, json **stored);
/* Replaces the main part or the status; the other stays as it is stored. */
windlass_error *memory_update(memory_store *store, windlass_kind kind, const json *object, const windlass_write_options *options,
                              json **stored);
windlass_error *memory_patch(memory_store *store, windlass_kind kind, windlass_key key, const json *patch,
                             const windlass_write_options *options, json **stored);
windlass_error *memory_apply(memory_store *store, windlass_kind kind, const json *object, const windlass_write_options *options,
                             json **stored);
windlass_error *memory_delete(memory_store *store, windlass_kind kind, windlass_key key, const windlass_delete_options *options);

/* An error for a call that no cluster in memory can answer. */
windlass_error *memory_invalid(const char *message);

/* ---- Fields: each function returns a new value ---- */

/* RFC 7386. The target may be NULL. */
json *memory_merged(const json *target, const json *patch);
/* Applies now, where before was applied last: its fields are set, those of before that it lacks go, all others stay. Lists are
 * replaced whole. What is stored, and before, may be NULL. */
json *memory_applied(const json *stored, const json *before, const json *now);
/* The stored object with one part of the given one: its status, or the rest. There may be no stored one for the rest. */
json *memory_combined(const json *stored, const json *given, bool status);
/* Whether the parts are the same whose changes metadata.generation counts. */
bool memory_same_desired(const json *one, const json *other);

/* ---- Selectors, as kubectl writes them; NULL selects all ---- */

/* Refuses wrong selectors: where nothing is compared, no other function sees them. */
windlass_error *memory_check_selectors(const char *labels, const char *fields);
/* The labels may be NULL, and so may the object below. */
windlass_error *memory_labels_match(const char *selector, const json *labels, bool *match);
/* Only metadata.name and metadata.namespace can be selected by. */
windlass_error *memory_fields_match(const char *selector, const json *object, bool *match);

#endif
