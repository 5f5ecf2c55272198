/* A fleet in memory for unit tests, which is their host. The program windlass has the clusters. Entry point:
 * windlass_memory_new. */

#include "windlass_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "test_host.h"
#include "windlass_test.h"
#include "wire.h"

/* The index of dependents, and the label that it is of. */
#define OWNER "windlass.dev/owner"

/* The handle of a cluster outside of a run. */
enum { NO_HANDLE = -1 };

/* An error of a later call. */
typedef struct failure {
    windlass_verb verb;
    windlass_error *error;
    struct failure *next;
} failure;

struct windlass_memory_cluster {
    /* The first member: the guest has a pointer to it. */
    windlass_cluster client;
    json *events;
    /* That of the run that goes on; NO_HANDLE if that has not used the cluster. */
    long long handle;
    /* By verb. */
    size_t calls[WINDLASS_OP_DELETE_COLLECTION + 1];
    failure *failures;
    windlass_memory_cluster *next;
};

struct windlass_memory {
    /* The first member: it is what the program runs in. */
    test_host host;
    windlass_memory_cluster *first;
    /* The program's side; NULL until the first cluster is made. */
    lines *program;
    /* Whether a run goes on. */
    bool runs;
};

/* ---- The program ---- */

static windlass_memory *fleet_of(const windlass_memory_cluster *cluster) {
    return (windlass_memory *)cluster->client.host;
}

/* Ends the run that goes on, so that what lost its owner goes. */
static void end(windlass_memory *fleet) {
    if (!fleet->runs) {
        return;
    }
    fleet->runs = false;
    for (windlass_memory_cluster *each = fleet->first; each != NULL; each = each->next) {
        each->handle = NO_HANDLE;
    }
    program_ask(fleet->program, json_string("End"));
}

/* Does something as another writer. */
static json *ask(windlass_memory *fleet, const char *what, json *arguments) {
    if (fleet->program == NULL) {
        fleet->program = program_connect();
    }
    end(fleet);
    return program_ask(fleet->program, wire_case(what, arguments));
}

/* The handle of a cluster in the run that goes on, which begins if there is none. */
static long long entered(windlass_memory_cluster *cluster) {
    windlass_memory *fleet = fleet_of(cluster);
    if (cluster->handle != NO_HANDLE) {
        return cluster->handle;
    }
    const char *what = fleet->runs ? "name" : "cluster";
    json *named = json_set(json_object(), what, json_string(cluster->client.name));
    json *answer = fleet->runs ? json_get(program_call(fleet->program, wire_case("Open", named)), "Ok")
                               : program_ask(fleet->program, wire_case("Begin", named));
    fleet->runs = true;
    cluster->handle = json_integer(answer, NO_HANDLE);
    return cluster->handle;
}

/* ---- The host ---- */

/* Counts a call, and fails it if the test asked for that. */
static windlass_reply call(windlass_cluster *client, const windlass_operation *operation) {
    windlass_memory_cluster *cluster = (windlass_memory_cluster *)client;
    cluster->calls[operation->verb]++;
    for (failure **place = &cluster->failures; *place != NULL; place = &(*place)->next) {
        if ((*place)->verb == operation->verb) {
            windlass_reply reply = {.error = (*place)->error};
            *place = (*place)->next;
            return reply;
        }
    }
    windlass_operation asked = *operation;
    if (asked.verb == WINDLASS_OP_LIST && asked.list.index != NULL) {
        /* Nothing is watched, so there are no indexes. */
        if (strcmp(asked.list.index, OWNER) != 0) {
            const char *message = windlass_format("a fleet of tests has no index \"%s\": list by label, or use `windlass test`",
                                                  asked.list.index);
            return (windlass_reply){.error = windlass_error_new(WINDLASS_INVALID, 422, message)};
        }
        asked.list.labels = windlass_format("%s=%s", OWNER, asked.list.value == NULL ? "" : asked.list.value);
        asked.list.index = NULL;
    }
    long long handle = entered(cluster);
    return wire_reply(program_call(fleet_of(cluster)->program, wire_call(handle, &asked)));
}

static windlass_error *open_cluster(test_host *host, const char *name, windlass_cluster **client) {
    for (windlass_memory_cluster *each = ((windlass_memory *)host)->first; each != NULL; each = each->next) {
        if (strcmp(each->client.name, name) == 0) {
            *client = &each->client;
            return NULL;
        }
    }
    const char *message = windlass_format("this fleet has no cluster \"%s\": the test names it with windlass_memory_add", name);
    return windlass_error_new(WINDLASS_DENIED, 0, message);
}

static void batch(test_host *host, windlass_cluster *client, const char *const *names, const windlass_operation *operations,
                  size_t count, windlass_reply *replies) {
    for (size_t at = 0; at < count; at++) {
        if (operations[at].verb == WINDLASS_OP_DELETE_COLLECTION) {
            fputs("windlass: delete-collection is nothing for a batch\n", stderr);
            abort();
        }
        windlass_error *error = names == NULL ? NULL : open_cluster(host, names[at], &client);
        replies[at] = error != NULL ? (windlass_reply){.error = error} : call(client, &operations[at]);
    }
}

static void record(windlass_cluster *client, json *event) {
    json_append(((windlass_memory_cluster *)client)->events, event);
}

static windlass_error *clusters(test_host *host, const char *labels, windlass_cluster_info **infos, size_t *count) {
    windlass_memory *fleet = (windlass_memory *)host;
    *count = 0;
    if (fleet->first == NULL) {
        return NULL;
    }
    entered(fleet->first); /* any run does */
    json *asked = wire_case("Clusters", json_set(json_object(), "label_selector", json_string(labels)));
    return wire_infos(program_call(fleet->program, asked), infos, count);
}

/* ---- The test's own functions ---- */

windlass_memory *windlass_memory_new(void) {
    windlass_memory *fleet = windlass_alloc(sizeof *fleet);
    test_begin(&fleet->host);
    fleet->host.call = call;
    fleet->host.batch = batch;
    fleet->host.record = record;
    fleet->host.clusters = clusters;
    fleet->host.open = open_cluster;
    return fleet;
}

void windlass_memory_config(windlass_memory *fleet, const char *text) {
    fleet->host.config = json_print(json_literal(text));
}

void windlass_memory_now(windlass_memory *fleet, const char *time) {
    fleet->host.now = windlass_format("%s", time);
}

const json *windlass_memory_logs(const windlass_memory *fleet) {
    return fleet->host.logs;
}

void windlass_memory_serve(windlass_memory *fleet, windlass_server *serve, void *context) {
    test_serve(&fleet->host, serve, context);
}

windlass_memory_cluster *windlass_memory_add(windlass_memory *fleet, const char *name) {
    for (windlass_memory_cluster *each = fleet->first; each != NULL; each = each->next) {
        if (strcmp(each->client.name, name) == 0) {
            return each;
        }
    }
    ask(fleet, "Cluster", json_set(json_object(), "name", json_string(name)));
    windlass_memory_cluster *cluster = windlass_alloc(sizeof *cluster);
    cluster->client = (windlass_cluster){&fleet->host, windlass_format("%s", name)};
    cluster->events = json_array();
    cluster->handle = NO_HANDLE;
    cluster->next = fleet->first;
    fleet->first = cluster;
    return cluster;
}

void windlass_memory_define(windlass_memory *fleet, windlass_kind kind, bool namespaced) {
    json *arguments = json_set(json_object(), "kind", wire_kind(kind));
    ask(fleet, "Define", json_set(arguments, "namespaced", json_bool(namespaced)));
}

void windlass_memory_info(windlass_memory_cluster *cluster, const json *labels, const json *properties) {
    json *arguments = json_set(json_object(), "name", json_string(cluster->client.name));
    json_set(arguments, "labels", labels == NULL ? json_object() : json_copy(labels));
    json_set(arguments, "properties", properties == NULL ? json_object() : json_copy(properties));
    ask(fleet_of(cluster), "Cluster", arguments);
}

/* Does something in a cluster as another writer. */
static json *ask_in(const windlass_memory_cluster *cluster, const char *what, json *arguments) {
    return ask(fleet_of(cluster), what, json_set(arguments, "cluster", json_string(cluster->client.name)));
}

void windlass_memory_unlabel(windlass_memory_cluster *cluster, const char *key) {
    json *labels = json_set(json_object(), key, json_null());
    ask_in(cluster, "Label", json_set(json_object(), "labels", labels));
}

void windlass_memory_leave(windlass_memory_cluster *cluster) {
    ask_in(cluster, "Leave", json_object());
    windlass_memory *fleet = fleet_of(cluster);
    windlass_memory_cluster **at = &fleet->first;
    while (*at != NULL && *at != cluster) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = cluster->next;
    }
}

void windlass_memory_fail(windlass_memory_cluster *cluster, windlass_memory_failure failure) {
    const char *name = failure == WINDLASS_MEMORY_ERRORS ? "Errors" : "Unreachable";
    ask_in(cluster, "Fail", json_set(json_object(), "failure", json_string(name)));
}

void windlass_memory_heal(windlass_memory_cluster *cluster) {
    ask_in(cluster, "Fail", json_set(json_object(), "failure", json_null()));
}

static json *named(windlass_kind kind, windlass_key key) {
    json *arguments = wire_key(key);
    return json_set(arguments, "kind", wire_kind(kind));
}

void windlass_memory_put(windlass_memory_cluster *cluster, const json *object) {
    ask_in(cluster, "Put", json_set(json_object(), "object", json_string(json_print(object))));
}

void windlass_memory_remove(windlass_memory_cluster *cluster, windlass_kind kind, windlass_key key) {
    ask_in(cluster, "Remove", named(kind, key));
}

json *windlass_memory_get(const windlass_memory_cluster *cluster, windlass_kind kind, windlass_key key) {
    json *object = ask_in(cluster, "Stored", named(kind, key));
    return object->type == JSON_NULL ? NULL : json_copy(object);
}

json *windlass_memory_objects(const windlass_memory_cluster *cluster) {
    return json_copy(ask_in(cluster, "Objects", json_object()));
}

/* The HTTP status that API servers return for a code; 0 if they do not return it. */
static int status_of(windlass_code code) {
    switch (code) {
    case WINDLASS_UNAUTHORIZED:
        return 401;
    case WINDLASS_FORBIDDEN:
        return 403;
    case WINDLASS_NOT_FOUND:
        return 404;
    case WINDLASS_ALREADY_EXISTS:
    case WINDLASS_CONFLICT:
        return 409;
    case WINDLASS_EXPIRED:
        return 410;
    case WINDLASS_INVALID:
        return 422;
    case WINDLASS_THROTTLED:
        return 429;
    case WINDLASS_UNAVAILABLE:
        return 503;
    default:
        return 0;
    }
}

void windlass_memory_fail_next(windlass_memory_cluster *cluster, windlass_verb verb, windlass_code code, const char *message) {
    failure **place = &cluster->failures;
    while (*place != NULL) {
        place = &(*place)->next;
    }
    *place = windlass_alloc(sizeof **place);
    **place = (failure){verb, windlass_error_new(code, status_of(code), windlass_format("%s", message)), NULL};
}

size_t windlass_memory_calls(const windlass_memory_cluster *cluster, windlass_verb verb) {
    return cluster->calls[verb];
}

size_t windlass_memory_writes(const windlass_memory_cluster *cluster) {
    size_t writes = 0;
    for (windlass_verb verb = WINDLASS_OP_CREATE; verb <= WINDLASS_OP_DELETE_COLLECTION; verb++) {
        writes += cluster->calls[verb];
    }
    return writes;
}

const json *windlass_memory_events(const windlass_memory_cluster *cluster) {
    return cluster->events;
}

windlass_result windlass_memory_reconcile(windlass_memory_cluster *cluster,
                                          windlass_result (*reconcile)(const windlass_request *request,
                                                                       windlass_cluster *cluster),
                                          windlass_key key) {
    test_host *before = test_enter(cluster->client.host);
    windlass_request request = {cluster->client.name, key};
    windlass_result result = reconcile(&request, &cluster->client);
    end(fleet_of(cluster));
    test_enter(before);
    return result;
}

windlass_result windlass_memory_map(windlass_memory_cluster *cluster, windlass_kind kind, const json *objects,
                                    windlass_requests *requests) {
    if (windlass_this_guest.map == NULL) {
        fputs("the guest has no map function: register it with WINDLASS_MAPPED_RECONCILER\n", stderr);
        exit(1);
    }
    test_host *before = test_enter(cluster->client.host);
    *requests = (windlass_requests){0};
    windlass_result result = windlass_this_guest.map(&cluster->client, kind, objects, requests);
    end(fleet_of(cluster));
    test_enter(before);
    return result;
}

windlass_cluster *windlass_memory_client(windlass_memory_cluster *cluster) {
    test_enter(cluster->client.host);
    return &cluster->client;
}
