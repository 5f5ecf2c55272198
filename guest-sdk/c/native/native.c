/*
 * The guest as a process of its own, for a debugger: `windlass dev --native RECONCILER` calls it over a socket as it calls a
 * component. Entry point: main. Each function of backend.h is a call of the host.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "lines.h"
#include "wire.h"

struct windlass_cluster {
    /* The host's number of it. */
    long long handle;
};

/* The program. */
static lines *host;

/* ---- Calls of the guest ---- */

static json *call(json *function) {
    lines_send(host, wire_case("Call", function));
    json *answer = lines_receive(host);
    const char *problem = json_text_at(answer, "/Trap");
    if (answer == NULL || problem != NULL) {
        fprintf(stderr, "windlass: %s\n", answer == NULL ? "the host has gone" : problem);
        abort(); /* where a component traps */
    }
    return answer;
}

static json *in(const windlass_cluster *cluster) {
    return json_set(json_object(), "cluster", json_number(cluster->handle));
}

const char *backend_name(windlass_cluster *cluster) {
    return json_text(call(wire_case("Name", in(cluster))));
}

windlass_reply backend_call(windlass_cluster *cluster, const windlass_operation *operation) {
    return wire_reply(call(wire_call(cluster->handle, operation)));
}

static void put_replies(const json *answers, size_t count, windlass_reply *replies) {
    size_t at = 0;
    json_each(answer, answers) {
        if (at < count) {
            replies[at++] = wire_batch_reply(answer);
        }
    }
}

void backend_batch(windlass_cluster *cluster, const windlass_operation *operations, size_t count, windlass_reply *replies) {
    json *asked = json_array();
    for (size_t at = 0; at < count; at++) {
        json_append(asked, wire_operation(&operations[at]));
    }
    put_replies(call(wire_case("Batch", json_set(in(cluster), "operations", asked))), count, replies);
}

void backend_fleet_batch(const char *const *names, const windlass_operation *operations, size_t count, windlass_reply *replies) {
    json *asked = json_array();
    for (size_t at = 0; at < count; at++) {
        json *pair = json_append(json_array(), json_string(names[at]));
        json_append(asked, json_append(pair, wire_operation(&operations[at])));
    }
    put_replies(call(wire_case("BatchFleet", json_set(json_object(), "operations", asked))), count, replies);
}

void backend_record(windlass_cluster *cluster, const windlass_event_record *event) {
    json *made = json_set(json_object(), "kind", wire_kind(windlass_kind_of(event->about)));
    json_set(made, "key", wire_key(windlass_key_of(event->about)));
    wire_text(made, "event_type", event->warning ? "Warning" : "Normal");
    wire_text(made, "reason", event->reason);
    wire_text(made, "action", event->action);
    wire_text(made, "note", event->note);
    call(wire_case("RecordEvent", json_set(in(cluster), "event", made)));
}

windlass_error *backend_clusters(const char *labels, windlass_cluster_info **clusters, size_t *count) {
    json *selector = json_set(json_object(), "label_selector", json_string(labels));
    return wire_infos(call(wire_case("Clusters", selector)), clusters, count);
}

static windlass_cluster *cluster_of(const json *handle) {
    windlass_cluster *cluster = windlass_alloc(sizeof *cluster);
    cluster->handle = json_integer(handle, 0);
    return cluster;
}

windlass_error *backend_open(const char *name, windlass_cluster **cluster) {
    json *answer = call(wire_case("Open", json_set(json_object(), "name", json_string(name))));
    windlass_error *error = wire_error(answer);
    if (error == NULL) {
        *cluster = cluster_of(json_get(answer, "Ok"));
    }
    return error;
}

windlass_error *backend_http(const windlass_http_request *request, windlass_http_response *response) {
    return wire_http_response(call(wire_http(request)), response);
}

void backend_log(backend_level level, const char *message, const backend_field *fields, size_t count) {
    static const char *const levels[] = {"Debug", "Info", "Warn", "Error"};
    json *line = json_object(), *pairs = json_array();
    for (size_t at = 0; at < count; at++) {
        json *pair = json_append(json_array(), json_string(fields[at].name));
        json_append(pairs, json_append(pair, json_string(fields[at].value == NULL ? "" : fields[at].value)));
    }
    wire_text(line, "level", levels[level]);
    wire_text(line, "message", message);
    call(wire_case("Log", json_set(line, "fields", pairs)));
}

const char *backend_config(void) {
    return json_text(call(json_string("Config")));
}

const char *backend_now(void) {
    return json_text(call(json_string("Now")));
}

bool backend_frees(void) {
    return true;
}

/* ---- Calls of the host ---- */

/* The pairs of an object of texts. */
static json *pairs_of(const json *options) {
    json *pairs = json_array();
    json_each(option, options) {
        json *pair = json_append(json_array(), json_string(option->name));
        json_append(pairs, json_append(pair, json_string(option->type == JSON_STRING ? option->text : json_print(option))));
    }
    return pairs;
}

static json *watch_of(const windlass_watch *from) {
    static const char *const ways[] = {"Primary", "ControllerOwner", "AnyOwner", "SameName", "ByIndex", "Mapped"};
    static const char *const scopes[] = {"AsConfigured", "Local", "Provider", "All"};
    static const char *const parts[] = {"Generation", "Labels", "Annotations", "Status"};
    const char *way = ways[from->enqueue];
    json *watch = json_set(json_object(), "kind", wire_kind(from->kind)), *changes = json_array();
    bool by_index = from->enqueue == WINDLASS_BY_INDEX;
    json_set(watch, "enqueue", by_index ? wire_case(way, json_string(from->index)) : json_string(way));
    wire_text(watch, "clusters", scopes[from->clusters]);
    wire_text(watch, "label_selector", from->labels);
    wire_text(watch, "field_selector", from->fields);
    for (size_t at = 0; at < 4; at++) {
        if ((from->changes >> at & 1) != 0) {
            json_append(changes, json_string(parts[at]));
        }
    }
    json_set(watch, "changes", changes);
    json_set(watch, "metadata_only", json_bool(from->metadata_only));
    return json_set(watch, "options", pairs_of(from->options));
}

static json *index_of(const windlass_index *from) {
    json *index = json_set(json_object(), "kind", wire_kind(from->kind));
    wire_text(index, "name", from->name);
    wire_text(index, "path", from->path);
    wire_text(index, "namespace_path", from->namespace_path);
    return json_set(index, "options", pairs_of(from->options));
}

static bool has_failed(windlass_result result) {
    return result.outcome == WINDLASS_RESULT_RETRY || result.outcome == WINDLASS_RESULT_TERMINAL;
}

static json *described(void) {
    windlass_description description = {0};
    windlass_result result = windlass_this_guest.describe(&description);
    if (has_failed(result)) {
        return wire_case("Err", json_string(result.message));
    }
    json *made = json_object(), *watches = json_array(), *indexes = json_array();
    for (size_t at = 0; at < description.watch_count; at++) {
        json_append(watches, watch_of(&description.watches[at]));
    }
    for (size_t at = 0; at < description.index_count; at++) {
        json_append(indexes, index_of(&description.indexes[at]));
    }
    wire_text(made, "title", description.title == NULL ? "" : description.title);
    if (description.primary.kind != NULL) {
        json_set(made, "primary", wire_kind(description.primary));
    }
    json_set(made, "watches", watches);
    json_set(made, "indexes", indexes);
    return wire_case("Ok", json_set(made, "options", pairs_of(description.options)));
}

static json *reconciled(const json *task) {
    const json *key = json_at(task, "/request/key");
    windlass_key asked = {json_text_at(key, "/namespace"), json_text_at(key, "/name")};
    windlass_request request = {json_text_at(task, "/request/cluster"), asked};
    windlass_result result = windlass_this_guest.reconcile(&request, cluster_of(json_get(task, "cluster")));
    if (has_failed(result)) {
        const char *how = result.outcome == WINDLASS_RESULT_TERMINAL ? "Terminal" : "Retry";
        return wire_case("Err", wire_case(how, json_string(result.message)));
    }
    bool again = result.outcome == WINDLASS_RESULT_REQUEUE;
    return wire_case("Ok", again ? wire_case("RequeueAfterMs", json_number(result.after_ms)) : json_string("Done"));
}

static json *mapped(const json *task) {
    if (windlass_this_guest.map == NULL) {
        return wire_case("Err", json_string("the guest has no map function: register it with WINDLASS_MAPPED_RECONCILER"));
    }
    const json *from = json_get(task, "kind");
    windlass_kind kind = {json_text_at(from, "/group"), json_text_at(from, "/version"), json_text_at(from, "/kind")};
    json *objects = json_array();
    json_each(text, json_get(task, "objects")) {
        windlass_error *odd = NULL;
        json *object = json_of_host(text->text, text->length, &odd);
        if (odd != NULL) {
            return wire_case("Err", json_string(windlass_failed(odd).message));
        }
        json_append(objects, object);
    }
    windlass_requests requests = {0};
    windlass_result result = windlass_this_guest.map(cluster_of(json_get(task, "cluster")), kind, objects, &requests);
    if (has_failed(result)) {
        return wire_case("Err", json_string(result.message));
    }
    json *made = json_array();
    for (size_t at = 0; at < requests.count; at++) {
        json *request = json_set(json_object(), "cluster", json_string(requests.items[at].cluster));
        json_append(made, json_set(request, "key", wire_key(requests.items[at].key)));
    }
    return wire_case("Ok", made);
}

static json *done(const json *task) {
    if (task->type == JSON_STRING) {
        return described();
    }
    const json *asked = json_get(task, "Reconcile");
    return asked != NULL ? reconciled(asked) : mapped(json_get(task, "MapObjects"));
}

int main(void) {
    char path[512] = "";
    FILE *file = fopen(".windlass/native", "r");
    host = file != NULL && fgets(path, sizeof path, file) != NULL ? lines_open(path) : NULL;
    if (host == NULL) {
        fputs("start `windlass dev --native RECONCILER` first, and this in the guest's folder\n", stderr);
        return 1;
    }
    fclose(file);
    for (json *task; (task = lines_receive(host)) != NULL;) {
        lines_send(host, wire_case("Return", done(task)));
        windlass_release((windlass_mark_t){NULL, 0});
    }
    return 0;
}
