/* The objects that a primary object should have. */

#include <string.h>

#include "backend.h"
#include "pass.h"
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

static windlass_error *refused(const char *message) {
    return sdk_failure(WINDLASS_INVALID, "Invalid", message);
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
static windlass_error *prepared(const windlass_dependents *dependents, const json *primary, const json *object,
                                sdk_desired *desired) {
    if (!sdk_is_among(dependents->kinds, dependents->kind_count, windlass_kind_of(object))) {
        return refused(windlass_format("%s: its kind is not among those of the dependents", sdk_named(object)));
    }
    const char *uid = json_text_at(primary, "/metadata/uid"), *ns = windlass_key_of(primary).ns;
    if (uid == NULL) {
        return refused(windlass_format("%s has no uid: take an owner that was read from a cluster", sdk_named(primary)));
    }
    json *made = json_set_at(json_copy(object), OWNER_POINTER, json_string(uid));
    if (ns == NULL || sdk_same_text(ns, windlass_key_of(object).ns)) {
        windlass_error *error = windlass_set_controller(made, primary);
        if (error != NULL) {
            return error;
        }
    } else if (dependents->finalizer == NULL) {
        return refused(
            windlass_format("%s cannot be owned by %s: give the dependents a finalizer", sdk_named(object), sdk_named(primary)));
    }
    *desired = sdk_desired_of(made);
    return NULL;
}

/* The dependents that exist, as an array. There are none of a kind that is not served, if definitions are dependents too, or at
 * the end. */
static windlass_error *of_owner(const windlass_dependents *dependents, windlass_cluster *cluster, const json *primary,
                                json **found) {
    bool may_lack = windlass_is_deleting(primary);
    for (size_t at = 0; at < dependents->kind_count; at++) {
        may_lack = may_lack || sdk_is_definition(dependents->kinds[at]);
    }
    windlass_list_options options = {.index = OWNER, .value = json_text_at(primary, "/metadata/uid")};
    windlass_operation *operations = windlass_alloc((dependents->kind_count + 1) * sizeof *operations);
    for (size_t at = 0; at < dependents->kind_count; at++) {
        operations[at] = (windlass_operation){.verb = WINDLASS_OP_LIST, .kind = dependents->kinds[at], .list = options};
    }
    windlass_reply *replies = windlass_batch(cluster, operations, dependents->kind_count);
    *found = json_array();
    for (size_t at = 0; at < dependents->kind_count; at++) {
        windlass_error *failed = replies[at].error;
        if (failed != NULL && failed->code == WINDLASS_UNKNOWN_KIND && may_lack) {
            continue;
        }
        if (failed != NULL) {
            return failed;
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

/* Brings the dependents of a living object to their desired state. */
static windlass_result keep(windlass_cluster *cluster, const json *primary, const json *desired,
                            const windlass_dependents *dependents) {
    sdk_pass pass = {.cluster = cluster, .dependents = dependents, .waiting = json_array(), .failures = json_array()};
    sdk_desired *wanted = windlass_alloc((json_count(desired) + 1) * sizeof *wanted);
    for (size_t at = 0; at < dependents->recreate_count; at++) {
        windlass_kind kind = dependents->recreate[at];
        if (!sdk_is_among(dependents->kinds, dependents->kind_count, kind)) {
            return windlass_failed(refused(windlass_format("recreate: %s is not among the kinds of the dependents", kind.kind)));
        }
    }
    json_each(object, desired) {
        WINDLASS_TRY(prepared(dependents, primary, object, &wanted[pass.count]));
        for (size_t at = 0; at < pass.count; at++) {
            if (sdk_same_identity(wanted[at].object, object)) {
                return windlass_failed(refused(windlass_format("%s: it is desired twice", sdk_named(object))));
            }
        }
        pass.count++;
    }
    pass.wanted = wanted;
    if (dependents->finalizer != NULL) {
        WINDLASS_TRY(windlass_ensure_finalizer(cluster, primary, dependents->finalizer, NULL));
    }
    WINDLASS_TRY(of_owner(dependents, cluster, primary, &pass.present));
    sdk_run_pass(&pass);
    if (pass.failed != NULL) {
        windlass_error *error = report(cluster, primary, "ApplyFailed", pass.failed->message, NULL);
        if (error != NULL) {
            pass.failed->message =
                windlass_format("%s; and the status cannot be written: %s", pass.failed->message, sdk_plain(error));
        }
        return windlass_failed(pass.failed);
    }
    if (json_count(pass.waiting) == 0) {
        WINDLASS_TRY(report(cluster, primary, "Ready", "all dependents are ready", dependents->status));
        return windlass_done();
    }
    const char *message = windlass_format("waits for %s", sdk_summary(pass.waiting));
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
    WINDLASS_TRY(not_owned(dependents, cluster, primary, &left));
    sdk_removed *removed;
    size_t count = sdk_remove(cluster, left, &removed);
    for (size_t at = 0; at < count; at++) {
        WINDLASS_TRY(removed[at].error);
    }
    if (count > 0) {
        WINDLASS_TRY(not_owned(dependents, cluster, primary, &left));
    }
    if (json_count(left) == 0) {
        WINDLASS_TRY(windlass_remove_finalizer(cluster, primary, dependents->finalizer, NULL));
        return windlass_done();
    }
    json *names = json_array();
    json_each(object, left) {
        json_append(names, json_string(sdk_named(object)));
    }
    const char *message = windlass_format("waits for the deletion of %s", sdk_summary(names));
    WINDLASS_TRY(report(cluster, primary, "Deleting", message, NULL));
    return windlass_requeue_after(dependents->recheck_ms == 0 ? RECHECK_MS : dependents->recheck_ms);
}

windlass_result windlass_reconcile_dependents(windlass_cluster *cluster, const json *primary, const json *desired,
                                              const windlass_dependents *dependents) {
    return windlass_is_deleting(primary) ? end(cluster, primary, dependents) : keep(cluster, primary, desired, dependents);
}
