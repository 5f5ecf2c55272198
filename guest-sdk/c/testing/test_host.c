/* The host of unit tests: each function of backend.h asks what stands in its place. Entry point: test_enter. */

#include "test_host.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The current host. */
static test_host *current;

void test_begin(test_host *host) {
    host->config = "{}";
    host->now = "2026-01-31T09:30:00.000Z";
    host->logs = json_array();
}

test_host *test_enter(test_host *host) {
    test_host *before = current;
    current = host;
    return before;
}

static test_host *running(void) {
    if (current == NULL) {
        fputs("windlass: there is no host outside a component: run the guest with windlass_memory_reconcile, or "
              "windlass_script_reconcile\n",
              stderr);
        exit(1);
    }
    return current;
}

void test_show_text(json *into, const char *name, const char *text) {
    if (text != NULL) {
        json_set(into, name, json_string(text));
    }
}

const char *test_kind_text(windlass_kind kind) {
    return kind.group[0] == '\0' ? windlass_format("%s/%s", kind.version, kind.kind)
                                 : windlass_format("%s/%s/%s", kind.group, kind.version, kind.kind);
}

const char *backend_name(windlass_cluster *cluster) {
    return cluster->name;
}

windlass_reply backend_call(windlass_cluster *cluster, const windlass_operation *operation) {
    return cluster->host->call(cluster, operation);
}

void backend_batch(windlass_cluster *cluster, const windlass_operation *operations, size_t count, windlass_reply *replies) {
    cluster->host->batch(cluster->host, cluster, NULL, operations, count, replies);
}

void backend_record(windlass_cluster *cluster, const windlass_event_record *event) {
    json *shown = json_object();
    test_show_text(shown, "cluster", cluster->name);
    test_show_text(shown, "kind", test_kind_text(windlass_kind_of(event->about)));
    test_show_text(shown, "about", windlass_key_text(windlass_key_of(event->about)));
    test_show_text(shown, "type", event->warning ? "Warning" : "Normal");
    test_show_text(shown, "reason", event->reason);
    test_show_text(shown, "action", event->action);
    test_show_text(shown, "note", event->note);
    cluster->host->record(cluster, shown);
}

windlass_error *backend_clusters(const char *labels, windlass_cluster_info **clusters, size_t *count) {
    return running()->clusters(current, labels, clusters, count);
}

windlass_error *backend_open(const char *name, windlass_cluster **cluster) {
    return running()->open(current, name, cluster);
}

void backend_fleet_batch(const char *const *names, const windlass_operation *operations, size_t count, windlass_reply *replies) {
    running()->batch(current, NULL, names, operations, count, replies);
}

void test_serve(test_host *host, windlass_server *serve, void *context) {
    host->serve = serve;
    host->context = context;
}

windlass_error *backend_http(const windlass_http_request *request, windlass_http_response *response) {
    if (running()->serve == NULL) {
        return windlass_error_new(WINDLASS_DENIED, 0,
                                  "this test has no answers for calls of servers: it gives them with windlass_memory_serve or "
                                  "windlass_script_serve");
    }
    windlass_http_response answer = {.status = 200};
    current->serve(current->context, request, &answer);
    windlass_header *headers = windlass_alloc(answer.header_count * sizeof *headers);
    for (size_t at = 0; at < answer.header_count; at++) {
        char *name = windlass_format("%s", answer.headers[at].name);
        for (char *letter = name; *letter != '\0'; letter++) {
            *letter = (char)tolower((unsigned char)*letter);
        }
        headers[at] = (windlass_header){name, windlass_format("%s", answer.headers[at].value)};
    }
    char *body = windlass_alloc(answer.body_length + 1);
    if (answer.body_length != 0) {
        memcpy(body, answer.body, answer.body_length);
    }
    *response = (windlass_http_response){answer.status, headers, answer.header_count, body, answer.body_length};
    return NULL;
}

void backend_log(backend_level level, const char *message, const backend_field *fields, size_t count) {
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    json *line = json_object(), *shown = json_object();
    test_show_text(line, "level", levels[level]);
    test_show_text(line, "message", message);
    for (size_t at = 0; at < count; at++) {
        test_show_text(shown, fields[at].name, fields[at].value);
    }
    json_set(line, "fields", shown);
    json_append(running()->logs, line);
}

const char *backend_config(void) {
    return running()->config;
}

const char *backend_now(void) {
    return running()->now;
}

/* What a host keeps has the memory of the calls, so none of it is freed before the program ends. */
bool backend_frees(void) {
    return false;
}
