/* The objects that a primary object should have. */

#include <string.h>

#include "backend.h"
#include "windlass.h"

/* The label with the owner's uid, and the index of it. */
#define OWNER "windlass.dev/owner"
#define OWNER_POINTER "/metadata/labels/windlass.dev~1owner"

enum { RECHECK_MS = 10000 };

void windlass_add_dependents(windlass_description *description, const windlass_dependents *dependents) {
    for (size_t at = 0; at < dependents->kind_count; at++) {
        windlass_kind kind = dependents->kinds[at];
        windlass_add_watch(description, (windlass_watch){.kind = kind, .enqueue = WINDLASS_CONTROLLER_OWNER});
        windlass_add_index(description, (windlass_index){.kind = kind, .name = OWNER, .path = "metadata.labels['" OWNER "']"});
    }
}

static bool same_kind(windlass_kind one, windlass_kind other) {
    return strcmp(one.group, other.group) == 0 && strcmp(one.version, other.version) == 0 && strcmp(one.kind, other.kind) == 0;
}

/* The object of the same kind and key. */
static json *find(const json *objects, const json *wanted) {
    windlass_key key = windlass_key_of(wanted);
    json_each(each, objects) {
        windlass_key of = windlass_key_of(each);
        bool here = sdk_same_text(key.ns, of.ns) || (key.ns == NULL && of.ns == NULL);
        if (here && strcmp(key.name, of.name) == 0 && same_kind(windlass_kind_of(wanted), windlass_kind_of(each))) {
            return each;
        }
    }
    return NULL;
}

static windlass_error *refused(const char *message) {
    return sdk_failure(WINDLASS_INVALID, "Invalid", message);
}

/* The first of several objects or texts, and how many more there are. */
static const char *summary(const char *first, size_t count) {
    return count > 1 ? windlass_format("%s, and %zu more", first, count - 1) : first;
}

/* Writes the conditions Ready and Progressing. */
static windlass_error *report(windlass_cluster *cluster, const json *primary, const char *reason, const char *message,
                              const json *status) {
    windlass_kind kind = windlass_kind_of(primary);
    windlass_key key = windlass_key_of(primary);
    json *present;
    windlass_error *error = windlass_get(cluster, kind, key, NULL, &present);
    if (error != NULL || present == NULL) {
        return error;
    }
    bool ready = strcmp(reason, "Ready") == 0;
    json *next = json_copy(present), *wanted = status == NULL ? json_object() : json_copy(status);
    windlass_condition condition = {.reason = reason, .message = message};
    condition.observed_generation = json_integer(json_at(primary, "/metadata/generation"), 0);
    condition.type = "Ready", condition.status = ready ? "True" : "False";
    windlass_set_condition(next, condition);
    condition.type = "Progressing", condition.status = ready ? "False" : "True";
    windlass_set_condition(next, condition);
    json_set(wanted, "conditions", json_copy(json_at(next, "/status/conditions")));
    return sdk_write_status(cluster, kind, key, present, wanted, NULL);
}

/* A desired object as it is applied: with its owner, or the label alone where it cannot have one. */
static windlass_error *prepared(const windlass_dependents *dependents, const json *primary, const json *object, json **made) {
    bool declared = false;
    for (size_t at = 0; at < dependents->kind_count; at++) {
        declared = declared || same_kind(dependents->kinds[at], windlass_kind_of(object));
    }
    if (!declared) {
        return refused(windlass_format("%s: its kind is not among those of the dependents", sdk_named(object)));
    }
    const char *uid = json_text_at(primary, "/metadata/uid"), *ns = windlass_key_of(primary).ns;
    if (uid == NULL) {
        return refused(windlass_format("%s has no uid: take an owner that was read from a cluster", sdk_named(primary)));
    }
    *made = json_set_at(json_copy(object), OWNER_POINTER, json_string(uid));
    if (ns == NULL || sdk_same_text(ns, windlass_key_of(object).ns)) {
        windlass_error *error = windlass_set_controller(*made, primary);
        if (error != NULL) {
            return error;
        }
    } else if (dependents->finalizer == NULL) {
        return refused(
            windlass_format("%s cannot be owned by %s: give the dependents a finalizer", sdk_named(object), sdk_named(primary)));
    }
    sdk_stamped(*made);
    return NULL;
}

/* The dependents that exist, as an array. */
static windlass_error *of_owner(const windlass_dependents *dependents, windlass_cluster *cluster, const json *primary,
                                json **found) {
    windlass_list_options options = {.index = OWNER, .value = json_text_at(primary, "/metadata/uid")};
    windlass_operation *operations = windlass_alloc((dependents->kind_count + 1) * sizeof *operations);
    for (size_t at = 0; at < dependents->kind_count; at++) {
        operations[at] = (windlass_operation){.verb = WINDLASS_OP_LIST, .kind = dependents->kinds[at], .list = options};
    }
    windlass_reply *replies = windlass_batch(cluster, operations, dependents->kind_count);
    *found = json_array();
    for (size_t at = 0; at < dependents->kind_count; at++) {
        if (replies[at].error != NULL) {
            return replies[at].error;
        }
        json_each(object, replies[at].page.items) {
            json_append(*found, json_copy(object));
        }
        options.continue_token = replies[at].page.continue_token;
        if (options.continue_token == NULL) {
            continue;
        }
        windlass_iterator iterator = windlass_iterate(cluster, dependents->kinds[at], &options);
        for (json *object;;) {
            windlass_error *error = windlass_next(&iterator, &object);
            if (error != NULL) {
                return error;
            }
            if (object == NULL) {
                break;
            }
            json_append(*found, json_copy(object));
        }
    }
    return NULL;
}

static windlass_error *not_owned(const windlass_dependents *dependents, windlass_cluster *cluster, const json *primary,
                                 json **left) {
    json *found;
    windlass_error *error = of_owner(dependents, cluster, primary, &found);
    if (error != NULL) {
        return error;
    }
    *left = json_array();
    json_each(object, found) {
        if (!sdk_is_owned_by(object, json_text_at(primary, "/metadata/uid"))) {
            json_append(*left, json_copy(object));
        }
    }
    return NULL;
}

/* Deletes these objects, and not newer ones of the same names; tells whether there was something to delete. */
static windlass_error *delete_all(windlass_cluster *cluster, const json *objects, bool *deleted) {
    windlass_operation *operations = windlass_alloc((json_count(objects) + 1) * sizeof *operations);
    size_t count = 0;
    json_each(object, objects) {
        if (!windlass_is_deleting(object)) {
            operations[count] = (windlass_operation){
                .verb = WINDLASS_OP_DELETE, .kind = windlass_kind_of(object), .key = windlass_key_of(object)};
            operations[count++].deletion.uid = json_text_at(object, "/metadata/uid");
        }
    }
    *deleted = count > 0;
    if (count == 0) {
        return NULL;
    }
    windlass_reply *replies = windlass_batch(cluster, operations, count);
    for (size_t at = 0; at < count; at++) {
        if (replies[at].error != NULL && replies[at].error->code != WINDLASS_NOT_FOUND) {
            return replies[at].error;
        }
    }
    return NULL;
}

/* Applies what differs. The result has each wanted object as it is stored. */
static windlass_error *apply_all(windlass_cluster *cluster, const json *primary, const json *wanted, const json *present,
                                 json **stored) {
    windlass_operation *operations = windlass_alloc((json_count(wanted) + 1) * sizeof *operations);
    size_t count = 0;
    json_each(object, wanted) {
        const json *there = find(present, object);
        if (there == NULL || !sdk_covers(there, object)) {
            operations[count] = (windlass_operation){.verb = WINDLASS_OP_APPLY, .object = object};
            operations[count++].write.force = true;
        }
    }
    windlass_reply *replies = count == 0 ? NULL : windlass_batch(cluster, operations, count);
    for (size_t at = 0; at < count; at++) {
        windlass_error *error = replies[at].error;
        if (error != NULL) {
            const char *message =
                windlass_format("%s: %s: %s", sdk_named(operations[at].object), windlass_code_name(error->code), error->message);
            windlass_error *unreported = report(cluster, primary, "ApplyFailed", message, NULL);
            return unreported != NULL ? unreported : error;
        }
    }
    *stored = json_array();
    size_t next = 0;
    json_each(object, wanted) {
        bool applied = next < count && operations[next].object == object;
        const json *as = applied ? replies[next++].object : find(present, object);
        json_append(*stored, json_copy(as == NULL ? object : as));
    }
    return NULL;
}

/* Brings the dependents of a living object to their desired state. */
static windlass_result keep(windlass_cluster *cluster, const json *primary, const json *desired,
                            const windlass_dependents *dependents) {
    json *wanted = json_array(), *present, *stored, *gone = json_array();
    json_each(object, desired) {
        json *made;
        WINDLASS_TRY(prepared(dependents, primary, object, &made));
        json_append(wanted, made);
    }
    if (dependents->finalizer != NULL) {
        WINDLASS_TRY(windlass_ensure_finalizer(cluster, primary, dependents->finalizer, NULL));
    }
    WINDLASS_TRY(of_owner(dependents, cluster, primary, &present));
    WINDLASS_TRY(apply_all(cluster, primary, wanted, present, &stored));
    json_each(object, present) {
        if (find(wanted, object) == NULL) {
            json_append(gone, json_copy(object));
        }
    }
    bool deleted;
    WINDLASS_TRY(delete_all(cluster, gone, &deleted));

    const char *first = NULL;
    size_t waiting = 0;
    json_each(object, stored) {
        const char *why = dependents->ready == NULL ? windlass_readiness(object) : dependents->ready(object, dependents->context);
        if (why != NULL && waiting++ == 0) {
            first = windlass_format("%s: %s", sdk_named(object), why);
        }
    }
    if (waiting == 0) {
        WINDLASS_TRY(report(cluster, primary, "Ready", "all dependents are ready", dependents->status));
        return windlass_done();
    }
    const char *message = windlass_format("waits for %s", summary(first, waiting));
    WINDLASS_TRY(report(cluster, primary, "NotReady", message, dependents->status));
    return windlass_requeue_after(dependents->recheck_ms == 0 ? RECHECK_MS : dependents->recheck_ms);
}

/* Ends the dependents of an object that is being deleted. The garbage collector takes those that the object owns. */
static windlass_result end(windlass_cluster *cluster, const json *primary, const windlass_dependents *dependents) {
    if (dependents->finalizer == NULL || !windlass_has_finalizer(primary, dependents->finalizer)) {
        return windlass_done();
    }
    if (dependents->cleanup != NULL) {
        windlass_result result = dependents->cleanup(cluster, primary, dependents->context);
        if (result.outcome != WINDLASS_RESULT_DONE) {
            return result;
        }
    }
    json *left;
    bool deleted;
    WINDLASS_TRY(not_owned(dependents, cluster, primary, &left));
    WINDLASS_TRY(delete_all(cluster, left, &deleted));
    if (deleted) {
        WINDLASS_TRY(not_owned(dependents, cluster, primary, &left));
    }
    if (json_count(left) == 0) {
        WINDLASS_TRY(windlass_remove_finalizer(cluster, primary, dependents->finalizer, NULL));
        return windlass_done();
    }
    const char *names = summary(sdk_named(left->first), json_count(left));
    WINDLASS_TRY(report(cluster, primary, "Deleting", windlass_format("waits for the deletion of %s", names), NULL));
    return windlass_requeue_after(dependents->recheck_ms == 0 ? RECHECK_MS : dependents->recheck_ms);
}

windlass_result windlass_reconcile_dependents(windlass_cluster *cluster, const json *primary, const json *desired,
                                              const windlass_dependents *dependents) {
    return windlass_is_deleting(primary) ? end(cluster, primary, dependents) : keep(cluster, primary, desired, dependents);
}
