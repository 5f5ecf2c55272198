/* The part of the SDK that every backend shares: calls, results, descriptions. objects.c is about objects. */

#include "windlass.h"

#include <stdlib.h>
#include <string.h>

#include "backend.h"

const char *windlass_code_name(windlass_code code) {
    static const char *const names[] = {
        "not-found", "already-exists", "conflict", "invalid",     "unauthorized",   "forbidden",    "denied",    "unknown-kind",
        "throttled", "expired",        "timeout",  "unavailable", "limit-exceeded", "cluster-gone", "cancelled", "other",
    };
    return code <= WINDLASS_OTHER ? names[code] : "other";
}

/* Results. */

windlass_result windlass_done(void) {
    return (windlass_result){WINDLASS_RESULT_DONE, 0, NULL};
}

windlass_result windlass_requeue_after(uint64_t milliseconds) {
    uint32_t most = milliseconds > UINT32_MAX ? UINT32_MAX : (uint32_t)milliseconds;
    return (windlass_result){WINDLASS_RESULT_REQUEUE, most, NULL};
}

windlass_result windlass_retry(const char *format, ...) {
    va_list values;
    va_start(values, format);
    const char *message = windlass_vformat(format, values);
    va_end(values);
    return (windlass_result){WINDLASS_RESULT_RETRY, 0, message};
}

windlass_result windlass_terminal(const char *format, ...) {
    va_list values;
    va_start(values, format);
    const char *message = windlass_vformat(format, values);
    va_end(values);
    return (windlass_result){WINDLASS_RESULT_TERMINAL, 0, message};
}

windlass_result windlass_failed(const windlass_error *error) {
    return windlass_retry("%s: %s", windlass_code_name(error->code), error->message);
}

windlass_result windlass_not_ready(uint64_t milliseconds, const char *format, ...) {
    va_list values;
    va_start(values, format);
    const char *message = windlass_vformat(format, values);
    va_end(values);
    windlass_info("not ready yet", "why", message, NULL);
    return windlass_requeue_after(milliseconds);
}

/* Lists that grow by one. */
static void *grown(void *items, size_t count, size_t size, const void *added) {
    /* Doubles the capacity, so that n additions cost O(n). */
    if ((count & (count - 1)) == 0) {
        char *larger = windlass_alloc((count == 0 ? 1 : count * 2) * size);
        if (count != 0) {
            memcpy(larger, items, count * size);
        }
        items = larger;
    }
    memcpy((char *)items + count * size, added, size);
    return items;
}

void windlass_add_watch(windlass_description *description, windlass_watch watch) {
    description->watches = grown(description->watches, description->watch_count++, sizeof watch, &watch);
    if (description->primary.kind == NULL && watch.enqueue == WINDLASS_PRIMARY) {
        description->primary = watch.kind;
    }
}

void windlass_add_index(windlass_description *description, windlass_index index) {
    description->indexes = grown(description->indexes, description->index_count++, sizeof index, &index);
}

void windlass_add_request(windlass_requests *requests, windlass_request request) {
    requests->items = grown(requests->items, requests->count++, sizeof request, &request);
}

/* Calls. */

const char *windlass_name(windlass_cluster *cluster) {
    return backend_name(cluster);
}

windlass_error *windlass_get(windlass_cluster *cluster, windlass_kind kind, windlass_key key, const windlass_get_options *options,
                             json **object) {
    windlass_operation operation = {.verb = WINDLASS_OP_GET, .kind = kind, .key = key};
    if (options != NULL) {
        operation.get = *options;
    }
    windlass_reply reply = backend_call(cluster, &operation);
    if (reply.error == NULL) {
        *object = reply.object;
    }
    return reply.error;
}

windlass_error *windlass_list(windlass_cluster *cluster, windlass_kind kind, const windlass_list_options *options,
                              windlass_page *page) {
    windlass_operation operation = {.verb = WINDLASS_OP_LIST, .kind = kind};
    if (options != NULL) {
        operation.list = *options;
    }
    windlass_reply reply = backend_call(cluster, &operation);
    if (reply.error == NULL) {
        *page = reply.page;
    }
    return reply.error;
}

windlass_iterator windlass_iterate(windlass_cluster *cluster, windlass_kind kind, const windlass_list_options *options) {
    windlass_iterator iterator = {.cluster = cluster, .kind = kind, .more = true};
    if (options != NULL) {
        iterator.options = *options;
    }
    return iterator;
}

windlass_error *windlass_next(windlass_iterator *iterator, json **object) {
    while (iterator->next == NULL && iterator->more) {
        windlass_page page;
        iterator->more = false;
        windlass_error *error = windlass_list(iterator->cluster, iterator->kind, &iterator->options, &page);
        if (error != NULL) {
            return error;
        }
        iterator->next = page.items->first;
        iterator->options.continue_token = page.continue_token;
        iterator->more = page.continue_token != NULL;
    }
    *object = iterator->next;
    if (iterator->next != NULL) {
        iterator->next = iterator->next->next;
    }
    return NULL;
}

windlass_error *windlass_list_all(windlass_cluster *cluster, windlass_kind kind, const windlass_list_options *options,
                                  json **items) {
    windlass_list_options asked = options == NULL ? (windlass_list_options){0} : *options;
    json *all = NULL;
    do {
        windlass_page page;
        windlass_error *error = windlass_list(cluster, kind, &asked, &page);
        if (error != NULL) {
            return error;
        }
        if (all == NULL) {
            all = page.items;
        } else if (page.items->first != NULL) {
            /* Moves the page's items to the result. */
            if (all->last == NULL) {
                all->first = page.items->first;
            } else {
                all->last->next = page.items->first;
            }
            all->last = page.items->last;
        }
        asked.continue_token = page.continue_token;
    } while (asked.continue_token != NULL);
    *items = all;
    return NULL;
}

static windlass_error *write(windlass_cluster *cluster, windlass_operation operation, const windlass_write_options *options,
                             json **stored) {
    if (options != NULL) {
        operation.write = *options;
    }
    windlass_reply reply = backend_call(cluster, &operation);
    if (reply.error == NULL && stored != NULL) {
        *stored = reply.object;
    }
    return reply.error;
}

windlass_error *windlass_create(windlass_cluster *cluster, const json *object, const windlass_write_options *options,
                                json **stored) {
    return write(cluster, (windlass_operation){.verb = WINDLASS_OP_CREATE, .object = object}, options, stored);
}

windlass_error *windlass_update(windlass_cluster *cluster, const json *object, const windlass_write_options *options,
                                json **stored) {
    return write(cluster, (windlass_operation){.verb = WINDLASS_OP_UPDATE, .object = object}, options, stored);
}

windlass_error *windlass_apply(windlass_cluster *cluster, const json *object, const windlass_write_options *options,
                               json **stored) {
    return write(cluster, (windlass_operation){.verb = WINDLASS_OP_APPLY, .object = object}, options, stored);
}

windlass_error *windlass_patch(windlass_cluster *cluster, windlass_kind kind, windlass_key key, windlass_patch_type type,
                               const json *patch, const windlass_write_options *options, json **stored) {
    windlass_operation operation = {.verb = WINDLASS_OP_PATCH, .kind = kind, .key = key, .patch_type = type, .object = patch};
    return write(cluster, operation, options, stored);
}

windlass_error *windlass_delete(windlass_cluster *cluster, windlass_kind kind, windlass_key key,
                                const windlass_delete_options *options, bool *deleted) {
    windlass_operation operation = {.verb = WINDLASS_OP_DELETE, .kind = kind, .key = key};
    if (options != NULL) {
        operation.deletion = *options;
    }
    windlass_error *error = backend_call(cluster, &operation).error;
    bool absent = error != NULL && error->code == WINDLASS_NOT_FOUND;
    if (error != NULL && !absent) {
        return error;
    }
    if (deleted != NULL) {
        *deleted = !absent;
    }
    return NULL;
}

windlass_error *windlass_delete_collection(windlass_cluster *cluster, windlass_kind kind, const windlass_list_options *selection,
                                           const windlass_delete_options *options) {
    windlass_operation operation = {.verb = WINDLASS_OP_DELETE_COLLECTION, .kind = kind};
    if (selection != NULL) {
        operation.list = *selection;
    }
    if (options != NULL) {
        operation.deletion = *options;
    }
    return backend_call(cluster, &operation).error;
}

static void record(windlass_cluster *cluster, const json *about, bool warning, const char *reason, const char *format,
                   va_list values) {
    windlass_record_event(cluster, (windlass_event_record){about, warning, reason, NULL, windlass_vformat(format, values)});
}

void windlass_record_event(windlass_cluster *cluster, windlass_event_record event) {
    if (event.action == NULL) {
        event.action = "Reconcile";
    }
    backend_record(cluster, &event);
}

void windlass_event(windlass_cluster *cluster, const json *about, const char *reason, const char *format, ...) {
    va_list values;
    va_start(values, format);
    record(cluster, about, false, reason, format, values);
    va_end(values);
}

void windlass_warning(windlass_cluster *cluster, const json *about, const char *reason, const char *format, ...) {
    va_list values;
    va_start(values, format);
    record(cluster, about, true, reason, format, values);
    va_end(values);
}

windlass_reply *windlass_batch(windlass_cluster *cluster, const windlass_operation *operations, size_t count) {
    windlass_reply *replies = windlass_alloc(count * sizeof *replies);
    backend_batch(cluster, operations, count, replies);
    return replies;
}

/* Other clusters. */

windlass_error *windlass_clusters(const char *labels, windlass_cluster_info **clusters, size_t *count) {
    return backend_clusters(labels, clusters, count);
}

windlass_error *windlass_open(const char *name, windlass_cluster **cluster) {
    return backend_open(name, cluster);
}

windlass_reply *windlass_fleet_batch(const char *const *names, const windlass_operation *operations, size_t count) {
    windlass_reply *replies = windlass_alloc(count * sizeof *replies);
    backend_fleet_batch(names, operations, count, replies);
    return replies;
}

/* Log, configuration, time. */

static void write_line(backend_level level, const char *message, va_list values) {
    backend_field *fields = NULL;
    size_t count = 0;
    for (const char *name; (name = va_arg(values, const char *)) != NULL;) {
        const char *value = va_arg(values, const char *);
        backend_field field = {name, value == NULL ? "" : value};
        fields = grown(fields, count++, sizeof field, &field);
    }
    backend_log(level, message, fields, count);
}

#define LOG(name, level)                                                                                                         \
    void name(const char *message, ...) {                                                                                        \
        va_list values;                                                                                                          \
        va_start(values, message);                                                                                               \
        write_line(level, message, values);                                                                                      \
        va_end(values);                                                                                                          \
    }

LOG(windlass_debug, BACKEND_DEBUG)
LOG(windlass_info, BACKEND_INFO)
LOG(windlass_warn, BACKEND_WARN)
LOG(windlass_log_error, BACKEND_ERROR)

json *windlass_config(void) {
    return json_literal(backend_config());
}

const char *windlass_now(void) {
    return backend_now();
}
