/* One pass over the dependents of a living object. */

#include "pass.h"

#include <string.h>

enum {
    /* Failures that a message names. */
    MOST = 3,
    /* Characters of what a message says of one failure. */
    LONGEST = 200,
    /* HTTP's status for an object that the server does not take as it is. */
    UNPROCESSABLE = 422
};

/* What is applied, and what it should be. */
typedef struct {
    const sdk_desired *desired;
    json *object;
    /* Why the server does not take it. */
    windlass_error *refusal;
} change;

static bool same_kind(windlass_kind one, windlass_kind other) {
    return strcmp(one.group, other.group) == 0 && strcmp(one.version, other.version) == 0 && strcmp(one.kind, other.kind) == 0;
}

bool sdk_is_among(const windlass_kind *kinds, size_t count, windlass_kind kind) {
    for (size_t at = 0; at < count; at++) {
        if (same_kind(kinds[at], kind)) {
            return true;
        }
    }
    return false;
}

bool sdk_same_identity(const json *one, const json *other) {
    windlass_key key = windlass_key_of(one), of = windlass_key_of(other);
    bool here = sdk_same_text(key.ns, of.ns) || (key.ns == NULL && of.ns == NULL);
    return here && sdk_same_text(key.name, of.name) && same_kind(windlass_kind_of(one), windlass_kind_of(other));
}

/* The object of the same kind and key. */
static json *find(const json *objects, const json *wanted) {
    json_each(each, objects) {
        if (sdk_same_identity(each, wanted)) {
            return each;
        }
    }
    return NULL;
}

bool sdk_is_definition(windlass_kind kind) {
    return strcmp(kind.group, "apiextensions.k8s.io") == 0 && strcmp(kind.kind, "CustomResourceDefinition") == 0;
}

/* Whether other objects need this one to exist: a Namespace, or the definition of a kind. */
static bool is_ground(const json *object) {
    windlass_kind kind = windlass_kind_of(object);
    return (strcmp(kind.group, "") == 0 && strcmp(kind.kind, "Namespace") == 0) || sdk_is_definition(kind);
}

/* Whether the cluster does not know a kind whose definition is desired. */
static bool is_defined(const windlass_error *error, windlass_kind kind, const sdk_desired *wanted, size_t count) {
    if (error->code != WINDLASS_UNKNOWN_KIND) {
        return false;
    }
    for (size_t at = 0; at < count; at++) {
        const json *object = wanted[at].object;
        if (is_ground(object) && sdk_same_text(json_text_at(object, "/spec/group"), kind.group) &&
            sdk_same_text(json_text_at(object, "/spec/names/kind"), kind.kind)) {
            return true;
        }
    }
    return false;
}

const char *sdk_summary(const json *texts) {
    const char *first = json_text(texts->first);
    size_t count = json_count(texts);
    return count > 1 ? windlass_format("%s, and %zu more", first, count - 1) : first;
}

/* At most so many characters. */
static const char *bounded(const char *text) {
    size_t characters = 0, end = 0;
    for (size_t at = 0; text[at] != '\0'; at++) {
        if ((text[at] & 0xc0) != 0x80 && ++characters == LONGEST) {
            end = at;
        }
    }
    return characters > LONGEST ? windlass_format("%.*s…", (int)end, text) : text;
}

const char *sdk_plain(const windlass_error *error) {
    json *texts = json_array();
    json_each(cause, json_get(error->details, "causes")) {
        const char *said = json_text(json_get(cause, "message")), *field = json_text(json_get(cause, "field"));
        said = said == NULL ? "" : said;
        for (const char *next; (next = strstr(said, "}: ")) != NULL;) {
            said = next + 3;
        }
        bool is_of_field = field != NULL && field[0] != '\0';
        json_append(texts, json_string(bounded(is_of_field ? windlass_format("%s: %s", field, said) : said)));
    }
    return json_count(texts) > 0 ? sdk_summary(texts) : bounded(error->message);
}

static void fail(sdk_pass *pass, const char *what, windlass_error *error) {
    json_append(pass->failures, json_string(windlass_format("%s: %s", what, sdk_plain(error))));
    pass->failed = pass->failed == NULL ? error : pass->failed;
}

static void wait_for(sdk_pass *pass, const json *object, const char *why) {
    json_append(pass->waiting, json_string(windlass_format("%s: %s", sdk_named(object), why)));
}

static void recreated(sdk_pass *pass, const json *object) {
    wait_for(pass, object, "it is deleted, and then created again");
}

static void not_deleted(sdk_pass *pass, const sdk_removed *removed) {
    fail(pass, windlass_format("%s cannot be deleted", sdk_named(removed->object)), removed->error);
}

size_t sdk_remove(windlass_cluster *cluster, const json *objects, sdk_removed **removed) {
    size_t most = json_count(objects) + 1, count = 0;
    windlass_operation *operations = windlass_alloc(most * sizeof *operations);
    *removed = windlass_alloc(most * sizeof **removed);
    for (int last = 0; last <= 1; last++) {
        size_t first = count;
        json_each(object, objects) {
            if (windlass_is_deleting(object) || is_ground(object) != (last == 1)) {
                continue;
            }
            windlass_operation deletion = {
                .verb = WINDLASS_OP_DELETE, .kind = windlass_kind_of(object), .key = windlass_key_of(object)};
            deletion.deletion.uid = json_text_at(object, "/metadata/uid");
            deletion.deletion.propagation = WINDLASS_BACKGROUND;
            operations[count] = deletion;
            (*removed)[count++].object = object;
        }
        windlass_reply *replies = count == first ? NULL : windlass_batch(cluster, operations + first, count - first);
        for (size_t at = first; at < count; at++) {
            windlass_error *error = replies[at - first].error;
            (*removed)[at].error = error != NULL && error->code == WINDLASS_NOT_FOUND ? NULL : error;
        }
    }
    return count;
}

static bool may_recreate(const sdk_pass *pass, const json *object) {
    return sdk_is_among(pass->dependents->recreate, pass->dependents->recreate_count, windlass_kind_of(object));
}

/* Applies these, or asks whether they could be created. */
static windlass_reply *batch(sdk_pass *pass, const change *changes, size_t count, bool ask) {
    windlass_operation *operations = windlass_alloc((count + 1) * sizeof *operations);
    for (size_t at = 0; at < count; at++) {
        operations[at] =
            (windlass_operation){.verb = ask ? WINDLASS_OP_CREATE : WINDLASS_OP_APPLY, .object = changes[at].object};
        operations[at].write.force = !ask;
        operations[at].write.dry_run = ask;
    }
    return count == 0 ? NULL : windlass_batch(pass->cluster, operations, count);
}

/* Deletes these objects, so that they are created again when they are gone. The server is asked before whether it would create
 * them: an object that is wrong altogether is not lost. One that is refused for what the object has itself, such as a port, tells
 * nothing: the change is the failure then. */
static void recreate(sdk_pass *pass, const change *refused, size_t count) {
    json *doomed = json_array();
    windlass_reply *replies = batch(pass, refused, count, true);
    for (size_t at = 0; at < count; at++) {
        windlass_error *error = replies[at].error;
        if (error != NULL && error->code != WINDLASS_ALREADY_EXISTS) {
            fail(pass, sdk_named(refused[at].object), error->http_status == UNPROCESSABLE ? refused[at].refusal : error);
            continue;
        }
        json_append(doomed, json_copy(find(pass->present, refused[at].object)));
    }
    sdk_removed *removed;
    size_t gone = sdk_remove(pass->cluster, doomed, &removed);
    for (size_t at = 0; at < gone; at++) {
        if (removed[at].error != NULL && removed[at].error->code != WINDLASS_CONFLICT) {
            not_deleted(pass, &removed[at]);
            continue;
        }
        recreated(pass, removed[at].object);
    }
}

static void not_applied(sdk_pass *pass, const json *object, windlass_error *error) {
    const char *ns = windlass_key_of(object).ns;
    ns = ns == NULL ? "" : ns;
    if (error->code == WINDLASS_NOT_FOUND && sdk_same_text(json_text(json_get(error->details, "kind")), "namespaces")) {
        wait_for(pass, object, windlass_format("its namespace %s does not exist", ns));
        return;
    }
    json_each(cause, json_get(error->details, "causes")) {
        if (sdk_same_text(json_text(json_get(cause, "reason")), "NamespaceTerminating")) {
            wait_for(pass, object, windlass_format("its namespace %s is being deleted", ns));
            return;
        }
    }
    if (is_defined(error, windlass_kind_of(object), pass->wanted, pass->count)) {
        wait_for(pass, object, "its kind is not served yet");
        return;
    }
    fail(pass, sdk_named(object), error);
}

/* Puts an object as it is stored in the place of the older one. */
static void put(sdk_pass *pass, const json *stored) {
    json *there = find(pass->present, stored);
    if (there == NULL) {
        json_append(pass->present, json_copy(stored));
        return;
    }
    /* In place: nothing is freed before the call ends, and there may be hundreds. */
    json *next = there->next;
    *there = *json_copy(stored);
    there->linked = true;
    there->next = next;
}

/* Whether an object is to be deleted and created again. One that was made of the same fields is not: it would be made in the same
 * way again, and refused again. */
static bool is_other(const sdk_pass *pass, const sdk_desired *desired) {
    const json *present = find(pass->present, desired->object);
    return present != NULL && may_recreate(pass, desired->object) && !sdk_was_applied_to(desired, present);
}

/* Applies these, and keeps those that are stored. Returns how many. */
static size_t apply(sdk_pass *pass, const change *changes, size_t count, change *applied) {
    change *refused = windlass_alloc((count + 1) * sizeof *refused);
    size_t done = 0, refusals = 0;
    windlass_reply *replies = batch(pass, changes, count, false);
    for (size_t at = 0; at < count; at++) {
        const json *object = changes[at].object;
        windlass_error *error = replies[at].error;
        if (error == NULL) {
            put(pass, replies[at].object == NULL ? object : replies[at].object);
            applied[done++] = changes[at];
        } else if (error->http_status == UNPROCESSABLE && is_other(pass, changes[at].desired)) {
            refused[refusals] = changes[at];
            refused[refusals++].refusal = error;
        } else {
            not_applied(pass, object, error);
        }
    }
    recreate(pass, refused, refusals);
    return done;
}

/* Applies what differs: first what others need to exist. What a server keeps in another form is applied once more, with a note of
 * it. */
static void apply_all(sdk_pass *pass) {
    size_t most = pass->count + 1, done = 0, notes = 0;
    change *changes = windlass_alloc(most * sizeof *changes), *applied = windlass_alloc(most * sizeof *applied);
    for (int first = 1; first >= 0; first--) {
        size_t count = 0;
        for (size_t at = 0; at < pass->count; at++) {
            const sdk_desired *desired = &pass->wanted[at];
            const json *present = find(pass->present, desired->object);
            if (is_ground(desired->object) != (first == 1) || (present != NULL && sdk_held_by(desired, present))) {
                continue;
            }
            if (present != NULL && windlass_is_deleting(present) && may_recreate(pass, desired->object)) {
                recreated(pass, desired->object);
                continue;
            }
            changes[count++] = (change){.desired = desired, .object = sdk_next(desired, present)};
        }
        done += apply(pass, changes, count, applied + done);
    }
    for (size_t at = 0; at < done; at++) {
        const sdk_desired *desired = applied[at].desired;
        const json *stored = find(pass->present, desired->object);
        if (!sdk_held_by(desired, stored)) {
            changes[notes++] = (change){.desired = desired, .object = sdk_noted(desired, stored)};
        }
    }
    apply(pass, changes, notes, applied);
}

/* Deletes what is no longer desired. */
static void delete_others(sdk_pass *pass) {
    json *others = json_array();
    json_each(object, pass->present) {
        bool is_wanted = false;
        for (size_t at = 0; at < pass->count && !is_wanted; at++) {
            is_wanted = sdk_same_identity(pass->wanted[at].object, object);
        }
        if (!is_wanted) {
            json_append(others, json_copy(object));
        }
    }
    sdk_removed *removed;
    size_t count = sdk_remove(pass->cluster, others, &removed);
    for (size_t at = 0; at < count; at++) {
        if (removed[at].error != NULL) {
            not_deleted(pass, &removed[at]);
        }
    }
}

/* Asks what is ready. */
static void ask_ready(sdk_pass *pass) {
    const windlass_dependents *dependents = pass->dependents;
    for (size_t at = 0; at < pass->count; at++) {
        const json *stored = find(pass->present, pass->wanted[at].object);
        if (stored == NULL) {
            continue;
        }
        const char *why = dependents->ready == NULL ? windlass_readiness(stored) : dependents->ready(stored, dependents->context);
        if (why != NULL) {
            wait_for(pass, stored, why);
        }
    }
}

/* One error of all failures: the first one, with a message that names several. */
static windlass_error *all_of(const sdk_pass *pass) {
    windlass_error *all = windlass_alloc(sizeof *all);
    *all = *pass->failed;
    size_t count = json_count(pass->failures), at = 0;
    const char *message = "";
    json_each(text, pass->failures) {
        if (at++ < MOST) {
            message = windlass_format("%s%s%s", message, at > 1 ? "; " : "", json_text(text));
        }
    }
    all->message = count > MOST ? windlass_format("%s; and %zu more", message, count - MOST) : message;
    return all;
}

void sdk_run_pass(sdk_pass *pass) {
    apply_all(pass);
    delete_others(pass);
    if (pass->failed != NULL) {
        pass->failed = all_of(pass);
        return;
    }
    ask_ready(pass);
}
