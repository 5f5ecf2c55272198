/* A fleet in memory for unit tests, which is their host. Entry point: windlass_memory_new. */

#include "windlass_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "test_host.h"
#include "windlass_test.h"

/* An error of a later call. */
typedef struct failure {
    windlass_verb verb;
    windlass_error *error;
    struct failure *next;
} failure;

struct windlass_memory_cluster {
    /* The first member: the guest has a pointer to it. */
    windlass_cluster client;
    json *labels, *properties, *events;
    memory_store store;
    /* By verb. */
    size_t calls[WINDLASS_OP_DELETE_COLLECTION + 1];
    failure *failures;
    windlass_memory_cluster *next;
};

struct windlass_memory {
    /* The first member: it is what the program runs in. */
    test_host host;
    /* Sorted by name. */
    windlass_memory_cluster *first;
};

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
    return memory_answer(&cluster->store, operation);
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
    windlass_memory_cluster *first = ((windlass_memory *)host)->first;
    size_t most = 0;
    for (windlass_memory_cluster *each = first; each != NULL; each = each->next) {
        most++;
    }
    *infos = windlass_alloc((most + 1) * sizeof **infos);
    *count = 0;
    windlass_error *error = memory_check_selectors(labels, NULL);
    for (windlass_memory_cluster *each = first; error == NULL && each != NULL; each = each->next) {
        bool match;
        error = memory_labels_match(labels, each->labels, &match);
        if (error == NULL && match) {
            (*infos)[(*count)++] =
                (windlass_cluster_info){each->client.name, json_copy(each->labels), json_copy(each->properties), true};
        }
    }
    return error;
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

windlass_memory_cluster *windlass_memory_add(windlass_memory *fleet, const char *name) {
    windlass_memory_cluster **place = &fleet->first;
    while (*place != NULL && strcmp((*place)->client.name, name) < 0) {
        place = &(*place)->next;
    }
    if (*place != NULL && strcmp((*place)->client.name, name) == 0) {
        return *place;
    }
    windlass_memory_cluster *cluster = windlass_alloc(sizeof *cluster);
    cluster->client = (windlass_cluster){&fleet->host, windlass_format("%s", name)};
    cluster->labels = json_object();
    cluster->properties = json_object();
    cluster->events = json_array();
    cluster->next = *place;
    *place = cluster;
    return cluster;
}

void windlass_memory_info(windlass_memory_cluster *cluster, const json *labels, const json *properties) {
    cluster->labels = labels == NULL ? json_object() : json_copy(labels);
    cluster->properties = properties == NULL ? json_object() : json_copy(properties);
}

void windlass_memory_put(windlass_memory_cluster *cluster, const json *object) {
    memory_put(&cluster->store, object);
}

void windlass_memory_remove(windlass_memory_cluster *cluster, windlass_kind kind, windlass_key key) {
    memory_remove(&cluster->store, kind, key);
}

json *windlass_memory_get(const windlass_memory_cluster *cluster, windlass_kind kind, windlass_key key) {
    const json *object = memory_find(&cluster->store, kind, key);
    return object == NULL ? NULL : json_copy(object);
}

json *windlass_memory_objects(const windlass_memory_cluster *cluster) {
    json *objects = json_array();
    for (const memory_entry *each = cluster->store.first; each != NULL; each = each->next) {
        json_append(objects, json_copy(each->object));
    }
    return objects;
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
    test_enter(before);
    return result;
}

windlass_cluster *windlass_memory_client(windlass_memory_cluster *cluster) {
    test_enter(cluster->client.host);
    return &cluster->client;
}
