/* The scripted host of unit tests. Calls are compared, and shown, as JSON. */

#include "windlass_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_host.h"

typedef struct step {
    /* The call in the form that show_call and the similar functions print. */
    json *call;
    windlass_reply *replies;
    windlass_error *error;
    const windlass_cluster_info *clusters;
    size_t count;
    struct step *next;
} step;

struct windlass_script {
    test_host host;
    const char *cluster;
    step *first, *last;
    json *events;
};

/* ---- Calls as JSON ---- */

static void show_flag(json *into, const char *name, bool flag) {
    if (flag) {
        json_set(into, name, json_bool(true));
    }
}

static void show_number(json *into, const char *name, long long number) {
    if (number != 0) {
        json_set(into, name, json_number(number));
    }
}

static json *show_operation(const char *cluster, const windlass_operation *operation) {
    static const char *const verbs[] = {"get", "list", "create", "update", "patch", "apply", "delete", "delete-collection"};
    static const char *const patches[] = {"merge", "json-patch", "strategic-merge"};
    static const char *const propagations[] = {NULL, "background", "foreground", "orphan"};
    json *call = json_object();
    test_show_text(call, "cluster", cluster);
    test_show_text(call, "call", verbs[operation->verb]);
    bool whole =
        operation->verb == WINDLASS_OP_CREATE || operation->verb == WINDLASS_OP_UPDATE || operation->verb == WINDLASS_OP_APPLY;
    test_show_text(call, "kind", test_kind_text(whole ? windlass_kind_of(operation->object) : operation->kind));
    if (operation->key.name != NULL) {
        test_show_text(call, "key", windlass_key_text(operation->key));
    }
    if (operation->object != NULL) {
        json_set(call, operation->verb == WINDLASS_OP_PATCH ? "patch" : "object", json_copy(operation->object));
    }
    if (operation->verb == WINDLASS_OP_PATCH) {
        test_show_text(call, "type", patches[operation->patch_type]);
    }
    show_flag(call, "live", operation->get.live || operation->list.live);
    show_flag(call, "metadataOnly", operation->get.metadata_only || operation->list.metadata_only);
    test_show_text(call, "subresource",
                   operation->verb == WINDLASS_OP_GET ? operation->get.subresource : operation->write.subresource);
    test_show_text(call, "namespace", operation->list.ns);
    test_show_text(call, "labels", operation->list.labels);
    test_show_text(call, "fields", operation->list.fields);
    test_show_text(call, "index", operation->list.index);
    test_show_text(call, "value", operation->list.value);
    show_number(call, "limit", operation->list.limit);
    test_show_text(call, "continueToken", operation->list.continue_token);
    show_flag(call, "force", operation->write.force);
    show_flag(call, "dryRun", operation->write.dry_run || operation->deletion.dry_run);
    test_show_text(call, "uid", operation->deletion.uid);
    test_show_text(call, "resourceVersion", operation->deletion.resource_version);
    test_show_text(call, "propagation", propagations[operation->deletion.propagation]);
    if (operation->deletion.grace_period != NULL) {
        json_set(call, "gracePeriod", json_number(*operation->deletion.grace_period));
    }
    return call;
}

static json *show_batch(const char *cluster, const char *const *names, const windlass_operation *operations, size_t count) {
    json *calls = json_array(), *call = json_object();
    for (size_t at = 0; at < count; at++) {
        json_append(calls, show_operation(names == NULL ? cluster : names[at], &operations[at]));
    }
    test_show_text(call, "call", names == NULL ? "batch" : "fleet batch");
    json_set(call, "operations", calls);
    return call;
}

static json *show_fleet(const char *call, const char *name, const char *value) {
    json *shown = json_object();
    test_show_text(shown, "call", call);
    test_show_text(shown, name, value);
    return shown;
}

/* ---- The host ---- */

/* The next step, which must be this call. */
static step *next(test_host *host, json *call) {
    windlass_script *script = (windlass_script *)host;
    step *expected = script->first;
    if (expected == NULL || !json_same(expected->call, call)) {
        fprintf(stderr, "unexpected call\n  %s\nthe script expects\n  %s\n", json_print(call),
                expected == NULL ? "no further call" : json_print(expected->call));
        exit(1);
    }
    script->first = expected->next;
    if (script->first == NULL) {
        script->last = NULL;
    }
    return expected;
}

static windlass_cluster *cluster_of(test_host *host, const char *name) {
    windlass_cluster *cluster = windlass_alloc(sizeof *cluster);
    *cluster = (windlass_cluster){host, windlass_format("%s", name)};
    return cluster;
}

static windlass_reply call(windlass_cluster *cluster, const windlass_operation *operation) {
    return next(cluster->host, show_operation(cluster->name, operation))->replies[0];
}

static void batch(test_host *host, windlass_cluster *cluster, const char *const *names, const windlass_operation *operations,
                  size_t count, windlass_reply *replies) {
    const char *name = cluster == NULL ? NULL : cluster->name;
    const step *answered = next(host, show_batch(name, names, operations, count));
    memcpy(replies, answered->replies, count * sizeof *replies);
}

static void record(windlass_cluster *cluster, json *event) {
    json_append(((windlass_script *)cluster->host)->events, event);
}

static windlass_error *clusters(test_host *host, const char *labels, windlass_cluster_info **infos, size_t *count) {
    const step *answered = next(host, show_fleet("clusters", "labels", labels));
    *infos = windlass_alloc(answered->count * sizeof **infos);
    if (answered->count != 0) {
        memcpy(*infos, answered->clusters, answered->count * sizeof **infos);
    }
    *count = answered->count;
    return NULL;
}

static windlass_error *open_cluster(test_host *host, const char *name, windlass_cluster **cluster) {
    const step *answered = next(host, show_fleet("open", "name", name));
    if (answered->error == NULL) {
        *cluster = cluster_of(host, name);
    }
    return answered->error;
}

/* ---- The script ---- */

windlass_script *windlass_script_new(const char *cluster) {
    windlass_script *script = windlass_alloc(sizeof *script);
    test_begin(&script->host);
    script->host.call = call;
    script->host.batch = batch;
    script->host.record = record;
    script->host.clusters = clusters;
    script->host.open = open_cluster;
    script->cluster = windlass_format("%s", cluster);
    script->events = json_array();
    return script;
}

void windlass_script_config(windlass_script *script, const char *text) {
    script->host.config = json_print(json_literal(text));
}

void windlass_script_now(windlass_script *script, const char *time) {
    script->host.now = windlass_format("%s", time);
}

void windlass_script_serve(windlass_script *script, windlass_server *serve, void *context) {
    test_serve(&script->host, serve, context);
}

static step *expect(windlass_script *script, json *call) {
    step *made = windlass_alloc(sizeof *made);
    made->call = call;
    if (script->last == NULL) {
        script->first = made;
    } else {
        script->last->next = made;
    }
    script->last = made;
    return made;
}

/* A copy, because the guest may change its results. */
static windlass_reply *copies(const windlass_reply *replies, size_t count) {
    windlass_reply *made = windlass_alloc(count * sizeof *made);
    for (size_t at = 0; at < count; at++) {
        made[at] = replies[at];
        if (replies[at].object != NULL) {
            made[at].object = json_copy(replies[at].object);
        }
        if (replies[at].page.items != NULL) {
            made[at].page.items = json_copy(replies[at].page.items);
        }
        if (made[at].page.resource_version == NULL) {
            made[at].page.resource_version = "1";
        }
    }
    return made;
}

void windlass_expect_in(windlass_script *script, const char *cluster, windlass_operation operation, windlass_reply reply) {
    step *made = expect(script, show_operation(cluster, &operation));
    if (operation.verb == WINDLASS_OP_LIST && reply.error == NULL && reply.page.items == NULL) {
        reply.page.items = json_array();
    }
    made->replies = copies(&reply, 1);
}

void windlass_expect(windlass_script *script, windlass_operation operation, windlass_reply reply) {
    windlass_expect_in(script, script->cluster, operation, reply);
}

void windlass_expect_batch(windlass_script *script, const windlass_operation *operations, const windlass_reply *replies,
                           size_t count) {
    step *made = expect(script, show_batch(script->cluster, NULL, operations, count));
    made->replies = copies(replies, count);
}

void windlass_expect_fleet_batch(windlass_script *script, const char *const *names, const windlass_operation *operations,
                                 const windlass_reply *replies, size_t count) {
    step *made = expect(script, show_batch(NULL, names, operations, count));
    made->replies = copies(replies, count);
}

void windlass_expect_open(windlass_script *script, const char *name, windlass_error *error) {
    expect(script, show_fleet("open", "name", name))->error = error;
}

void windlass_expect_clusters(windlass_script *script, const char *labels, const windlass_cluster_info *clusters, size_t count) {
    step *made = expect(script, show_fleet("clusters", "labels", labels));
    made->clusters = clusters;
    made->count = count;
}

windlass_error *windlass_error_new(windlass_code code, int http_status, const char *message) {
    windlass_error *error = windlass_alloc(sizeof *error);
    *error = (windlass_error){code, http_status, windlass_code_name(code), message, NULL, -1};
    return error;
}

static void finish(windlass_script *script) {
    test_enter(NULL);
    if (script->first == NULL) {
        return;
    }
    fputs("the script expects further calls\n", stderr);
    for (const step *left = script->first; left != NULL; left = left->next) {
        fprintf(stderr, "  %s\n", json_print(left->call));
    }
    exit(1);
}

windlass_result windlass_script_reconcile(windlass_script *script, windlass_key key) {
    test_enter(&script->host);
    windlass_request request = {script->cluster, key};
    windlass_result result = windlass_this_guest.reconcile(&request, cluster_of(&script->host, script->cluster));
    finish(script);
    return result;
}

windlass_result windlass_script_describe(windlass_script *script, windlass_description *description) {
    test_enter(&script->host);
    *description = (windlass_description){0};
    windlass_result result = windlass_this_guest.describe(description);
    finish(script);
    return result;
}

windlass_result windlass_script_map(windlass_script *script, windlass_kind kind, const json *objects,
                                    windlass_requests *requests) {
    if (windlass_this_guest.map == NULL) {
        fputs("the guest has no map function: register it with WINDLASS_MAPPED_RECONCILER\n", stderr);
        exit(1);
    }
    test_enter(&script->host);
    *requests = (windlass_requests){0};
    windlass_result result = windlass_this_guest.map(cluster_of(&script->host, script->cluster), kind, objects, requests);
    finish(script);
    return result;
}

const json *windlass_script_events(const windlass_script *script) {
    return script->events;
}

const json *windlass_script_logs(const windlass_script *script) {
    return script->host.logs;
}
