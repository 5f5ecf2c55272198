/*
 * The SDK inside a component: between windlass.h and the contract's generated bindings (contract.h).
 *
 * Arguments of an import are borrowed from the memory of the call. The bindings free the results of an import. They also free the
 * results of an export, so those are allocated with malloc.
 */

#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "contract.h"
#include "windlass.h"

typedef contract_string_t text;
typedef windlass_runtime_client_api_error_t wit_error;

struct windlass_cluster {
    windlass_runtime_client_own_cluster_t handle;
    /* The cluster that was opened before this one in the same call. */
    struct windlass_cluster *before;
};

/* Memory that is freed one by one. NULL for nothing. */
static void *owned_items(size_t count, size_t size) {
    void *items = count == 0 ? NULL : calloc(count, size);
    if (items == NULL && count != 0) {
        abort();
    }
    return items;
}

/* The clusters of this call; they are closed at its end. Not in the memory of the call, which may be released before. */
static windlass_cluster *opened;

/* ---- Results for the guest ---- */

static char *kept(text of) {
    char *copy = windlass_alloc(of.len + 1);
    if (of.len != 0) {
        memcpy(copy, of.ptr, of.len);
    }
    return copy;
}

static const char *kept_option(contract_option_string_t of) {
    return of.is_some ? kept(of.val) : NULL;
}

static json *parsed(text of, windlass_error **error) {
    return json_of_host((const char *)of.ptr, of.len, error);
}

static windlass_error *error_of(wit_error *from) {
    windlass_error *error = windlass_alloc(sizeof *error), *odd = NULL;
    error->code = (windlass_code)from->code;
    error->http_status = from->http_status;
    error->reason = kept(from->reason);
    error->message = kept(from->message);
    if (from->details.is_some) {
        error->details = parsed(from->details.val, &odd);
        if (error->details == NULL) {
            error->details = json_string(kept(from->details.val));
        }
    }
    error->retry_after_ms = from->retry_after_ms.is_some ? (int64_t)from->retry_after_ms.val : -1;
    windlass_runtime_types_api_error_free(from);
    return error;
}

/* Stores a page in the reply, or an error if one of its objects cannot be read. */
static void put_page(windlass_reply *reply, windlass_runtime_client_list_page_t *from) {
    reply->page = (windlass_page){json_array(), kept_option(from->continue_token), kept(from->resource_version)};
    for (size_t at = 0; at < from->items.len && reply->error == NULL; at++) {
        json *object = parsed(from->items.ptr[at], &reply->error);
        if (object != NULL) {
            json_append(reply->page.items, object);
        }
    }
    windlass_runtime_client_list_page_free(from);
}

/* The same for an object. */
static void put_object(windlass_reply *reply, text *from) {
    reply->object = parsed(*from, &reply->error);
    contract_string_free(from);
}

static windlass_reply reply_of(windlass_runtime_client_result_reply_api_error_t *from) {
    windlass_reply reply = {0};
    if (from->is_err) {
        reply.error = error_of(&from->val.err);
    } else if (from->val.ok.tag == WINDLASS_RUNTIME_CLIENT_REPLY_OBJECT) {
        put_object(&reply, &from->val.ok.val.object);
    } else if (from->val.ok.tag == WINDLASS_RUNTIME_CLIENT_REPLY_PAGE) {
        put_page(&reply, &from->val.ok.val.page);
    }
    return reply;
}

/* ---- Calls of the guest ---- */

static text lent(const char *from) {
    from = well_formed(from);
    return (text){(uint8_t *)from, strlen(from)};
}

static contract_option_string_t lent_option(const char *from) {
    return from == NULL ? (contract_option_string_t){0} : (contract_option_string_t){true, lent(from)};
}

static windlass_runtime_client_group_version_kind_t wit_kind(windlass_kind kind) {
    return (windlass_runtime_client_group_version_kind_t){lent(kind.group), lent(kind.version), lent(kind.kind)};
}

static windlass_runtime_client_object_key_t wit_key(windlass_key key) {
    return (windlass_runtime_client_object_key_t){lent_option(key.ns), lent(key.name)};
}

static uint8_t wit_mode(bool live) {
    return live ? WINDLASS_RUNTIME_CLIENT_READ_MODE_LIVE : WINDLASS_RUNTIME_CLIENT_READ_MODE_CACHED;
}

static uint8_t wit_projection(bool metadata_only) {
    return metadata_only ? WINDLASS_RUNTIME_CLIENT_PROJECTION_METADATA : WINDLASS_RUNTIME_CLIENT_PROJECTION_FULL;
}

static windlass_runtime_client_get_options_t wit_get(const windlass_get_options *from) {
    return (windlass_runtime_client_get_options_t){
        .mode = wit_mode(from->live),
        .projection = wit_projection(from->metadata_only),
        .subresource = lent_option(from->subresource),
    };
}

static windlass_runtime_client_list_options_t wit_list(const windlass_list_options *from) {
    windlass_runtime_client_list_options_t options = {
        .namespace_ = lent_option(from->ns),
        .label_selector = lent_option(from->labels),
        .field_selector = lent_option(from->fields),
        .limit = from->limit,
        .continue_token = lent_option(from->continue_token),
        .mode = wit_mode(from->live),
        .projection = wit_projection(from->metadata_only),
    };
    if (from->index != NULL) {
        options.index.is_some = true;
        options.index.val.f0 = lent(from->index);
        options.index.val.f1 = lent(from->value == NULL ? "" : from->value);
    }
    return options;
}

static windlass_runtime_client_write_options_t wit_write(const windlass_write_options *from) {
    return (windlass_runtime_client_write_options_t){lent_option(from->subresource), from->dry_run};
}

static windlass_runtime_client_apply_options_t wit_apply(const windlass_write_options *from) {
    return (windlass_runtime_client_apply_options_t){lent_option(from->subresource), from->force, from->dry_run};
}

static windlass_runtime_client_delete_options_t wit_delete(const windlass_delete_options *from) {
    windlass_runtime_client_delete_options_t options = {
        .uid = lent_option(from->uid),
        .resource_version = lent_option(from->resource_version),
        .dry_run = from->dry_run,
    };
    if (from->propagation != WINDLASS_DEFAULT_PROPAGATION) {
        options.propagation.is_some = true;
        options.propagation.val = (uint8_t)(from->propagation - WINDLASS_BACKGROUND);
    }
    if (from->grace_period != NULL) {
        options.grace_period_seconds = (contract_option_u32_t){true, *from->grace_period};
    }
    return options;
}

static uint8_t wit_patch_type(windlass_patch_type type) {
    switch (type) {
    case WINDLASS_JSON_PATCH:
        return WINDLASS_RUNTIME_CLIENT_PATCH_TYPE_JSON_PATCH;
    case WINDLASS_STRATEGIC_MERGE:
        return WINDLASS_RUNTIME_CLIENT_PATCH_TYPE_STRATEGIC_MERGE;
    case WINDLASS_MERGE:
        break;
    }
    return WINDLASS_RUNTIME_CLIENT_PATCH_TYPE_MERGE;
}

/* The kind of a call; if it has an object, the kind of that object. */
static windlass_runtime_client_group_version_kind_t wit_kind_of(const windlass_operation *from) {
    bool whole = from->verb == WINDLASS_OP_CREATE || from->verb == WINDLASS_OP_UPDATE || from->verb == WINDLASS_OP_APPLY;
    return wit_kind(whole ? windlass_kind_of(from->object) : from->kind);
}

static windlass_runtime_client_operation_t wit_operation(const windlass_operation *from) {
    windlass_runtime_client_operation_t to = {0};
    windlass_runtime_client_group_version_kind_t kind = wit_kind_of(from);
    switch (from->verb) {
    case WINDLASS_OP_GET:
        to.tag = WINDLASS_RUNTIME_CLIENT_OPERATION_GET;
        to.val.get.f0 = kind;
        to.val.get.f1 = wit_key(from->key);
        to.val.get.f2 = wit_get(&from->get);
        break;
    case WINDLASS_OP_LIST:
        to.tag = WINDLASS_RUNTIME_CLIENT_OPERATION_LIST;
        to.val.list.f0 = kind;
        to.val.list.f1 = wit_list(&from->list);
        break;
    case WINDLASS_OP_CREATE:
    case WINDLASS_OP_UPDATE:
        to.tag = from->verb == WINDLASS_OP_CREATE ? WINDLASS_RUNTIME_CLIENT_OPERATION_CREATE
                                                  : WINDLASS_RUNTIME_CLIENT_OPERATION_UPDATE;
        to.val.create.f0 = kind;
        to.val.create.f1 = lent(json_print(from->object));
        to.val.create.f2 = wit_write(&from->write);
        break;
    case WINDLASS_OP_PATCH:
        to.tag = WINDLASS_RUNTIME_CLIENT_OPERATION_PATCH;
        to.val.patch.f0 = kind;
        to.val.patch.f1 = wit_key(from->key);
        to.val.patch.f2 = wit_patch_type(from->patch_type);
        to.val.patch.f3 = lent(json_print(from->object));
        to.val.patch.f4 = wit_write(&from->write);
        break;
    case WINDLASS_OP_APPLY:
        to.tag = WINDLASS_RUNTIME_CLIENT_OPERATION_APPLY;
        to.val.apply.f0 = kind;
        to.val.apply.f1 = lent(json_print(from->object));
        to.val.apply.f2 = wit_apply(&from->write);
        break;
    case WINDLASS_OP_DELETE:
        to.tag = WINDLASS_RUNTIME_CLIENT_OPERATION_DELETE;
        to.val.delete_.f0 = kind;
        to.val.delete_.f1 = wit_key(from->key);
        to.val.delete_.f2 = wit_delete(&from->deletion);
        break;
    case WINDLASS_OP_DELETE_COLLECTION:
        windlass_log_error("delete-collection is nothing for a batch", NULL);
        abort();
    }
    return to;
}

/* ---- The imports ---- */

static windlass_runtime_client_borrow_cluster_t borrowed(const windlass_cluster *cluster) {
    return windlass_runtime_client_borrow_cluster(cluster->handle);
}

const char *backend_name(windlass_cluster *cluster) {
    text name;
    windlass_runtime_client_method_cluster_name(borrowed(cluster), &name);
    char *copy = kept(name);
    contract_string_free(&name);
    return copy;
}

windlass_reply backend_call(windlass_cluster *cluster, const windlass_operation *operation) {
    windlass_runtime_client_borrow_cluster_t self = borrowed(cluster);
    windlass_runtime_client_group_version_kind_t kind = wit_kind_of(operation);
    windlass_runtime_client_object_key_t key = {0};
    windlass_runtime_client_write_options_t written = wit_write(&operation->write);
    text object = {0}, stored = {0};
    wit_error error;
    windlass_reply reply = {0};
    bool good = false;
    if (operation->key.name != NULL) {
        key = wit_key(operation->key);
    }
    if (operation->object != NULL) {
        object = lent(json_print(operation->object));
    }
    switch (operation->verb) {
    case WINDLASS_OP_GET: {
        windlass_runtime_client_get_options_t options = wit_get(&operation->get);
        windlass_runtime_client_option_json_t found;
        good = windlass_runtime_client_method_cluster_get(self, &kind, &key, &options, &found, &error);
        if (good && found.is_some) {
            stored = found.val;
        }
        break;
    }
    case WINDLASS_OP_LIST: {
        windlass_runtime_client_list_options_t options = wit_list(&operation->list);
        windlass_runtime_client_list_page_t page;
        good = windlass_runtime_client_method_cluster_list(self, &kind, &options, &page, &error);
        if (good) {
            put_page(&reply, &page);
        }
        break;
    }
    case WINDLASS_OP_CREATE:
        good = windlass_runtime_client_method_cluster_create(self, &kind, &object, &written, &stored, &error);
        break;
    case WINDLASS_OP_UPDATE:
        good = windlass_runtime_client_method_cluster_update(self, &kind, &object, &written, &stored, &error);
        break;
    case WINDLASS_OP_PATCH:
        good = windlass_runtime_client_method_cluster_patch(self, &kind, &key, wit_patch_type(operation->patch_type), &object,
                                                            &written, &stored, &error);
        break;
    case WINDLASS_OP_APPLY: {
        windlass_runtime_client_apply_options_t options = wit_apply(&operation->write);
        good = windlass_runtime_client_method_cluster_apply(self, &kind, &object, &options, &stored, &error);
        break;
    }
    case WINDLASS_OP_DELETE: {
        windlass_runtime_client_delete_options_t options = wit_delete(&operation->deletion);
        good = windlass_runtime_client_method_cluster_delete(self, &kind, &key, &options, &error);
        break;
    }
    case WINDLASS_OP_DELETE_COLLECTION: {
        windlass_runtime_client_selection_t selection = {lent_option(operation->list.ns), lent_option(operation->list.labels),
                                                         lent_option(operation->list.fields)};
        windlass_runtime_client_delete_options_t options = wit_delete(&operation->deletion);
        good = windlass_runtime_client_method_cluster_delete_collection(self, &kind, &selection, &options, &error);
        break;
    }
    }
    if (!good) {
        reply.error = error_of(&error);
    } else if (stored.ptr != NULL) {
        put_object(&reply, &stored);
    }
    return reply;
}

static void must_be_as_many(size_t answers, size_t calls) {
    if (answers != calls) {
        windlass_log_error("the host answered a batch with another number of replies", NULL);
        abort();
    }
}

void backend_batch(windlass_cluster *cluster, const windlass_operation *operations, size_t count, windlass_reply *replies) {
    windlass_runtime_client_list_operation_t asked = {windlass_alloc(count * sizeof *asked.ptr), count};
    for (size_t at = 0; at < count; at++) {
        asked.ptr[at] = wit_operation(&operations[at]);
    }
    windlass_runtime_client_list_result_reply_api_error_t answered;
    windlass_runtime_client_method_cluster_batch(borrowed(cluster), &asked, &answered);
    must_be_as_many(answered.len, count);
    for (size_t at = 0; at < count; at++) {
        replies[at] = reply_of(&answered.ptr[at]);
    }
    free(answered.ptr);
}

void backend_record(windlass_cluster *cluster, const windlass_event_record *event) {
    windlass_runtime_client_event_t recorded = {
        .kind = wit_kind(windlass_kind_of(event->about)),
        .key = wit_key(windlass_key_of(event->about)),
        .event_type = event->warning ? WINDLASS_RUNTIME_CLIENT_EVENT_TYPE_WARNING : WINDLASS_RUNTIME_CLIENT_EVENT_TYPE_NORMAL,
        .reason = lent(event->reason),
        .action = lent(event->action),
        .note = lent(event->note),
    };
    windlass_runtime_client_method_cluster_record_event(borrowed(cluster), &recorded);
}

static json *pairs_of(contract_list_tuple2_string_string_t from) {
    json *pairs = json_object();
    for (size_t at = 0; at < from.len; at++) {
        json_set(pairs, kept(from.ptr[at].f0), json_string(kept(from.ptr[at].f1)));
    }
    return pairs;
}

windlass_error *backend_clusters(const char *labels, windlass_cluster_info **clusters, size_t *count) {
    text selector = lent(labels == NULL ? "" : labels);
    windlass_runtime_fleet_list_cluster_info_t known;
    wit_error error;
    if (!windlass_runtime_fleet_clusters(labels == NULL ? NULL : &selector, &known, &error)) {
        return error_of(&error);
    }
    windlass_cluster_info *infos = windlass_alloc(known.len * sizeof *infos);
    for (size_t at = 0; at < known.len; at++) {
        windlass_runtime_fleet_cluster_info_t *from = &known.ptr[at];
        infos[at] = (windlass_cluster_info){kept(from->name), pairs_of(from->labels), pairs_of(from->properties), from->ready};
    }
    *clusters = infos;
    *count = known.len;
    windlass_runtime_fleet_list_cluster_info_free(&known);
    return NULL;
}

static windlass_cluster *opened_cluster(windlass_runtime_client_own_cluster_t handle) {
    windlass_cluster *cluster = owned_items(1, sizeof *cluster);
    *cluster = (windlass_cluster){handle, opened};
    opened = cluster;
    return cluster;
}

windlass_error *backend_open(const char *name, windlass_cluster **cluster) {
    text asked = lent(name);
    windlass_runtime_fleet_own_cluster_t handle;
    wit_error error;
    if (!windlass_runtime_fleet_open(&asked, &handle, &error)) {
        return error_of(&error);
    }
    *cluster = opened_cluster(handle);
    return NULL;
}

void backend_fleet_batch(const char *const *names, const windlass_operation *operations, size_t count, windlass_reply *replies) {
    windlass_runtime_fleet_list_tuple2_string_operation_t asked = {windlass_alloc(count * sizeof *asked.ptr), count};
    for (size_t at = 0; at < count; at++) {
        asked.ptr[at].f0 = lent(names[at]);
        asked.ptr[at].f1 = wit_operation(&operations[at]);
    }
    windlass_runtime_fleet_list_result_reply_api_error_t answered;
    windlass_runtime_fleet_batch(&asked, &answered);
    must_be_as_many(answered.len, count);
    for (size_t at = 0; at < count; at++) {
        windlass_runtime_client_result_reply_api_error_t one = {.is_err = answered.ptr[at].is_err};
        if (one.is_err) {
            one.val.err = answered.ptr[at].val.err;
        } else {
            one.val.ok = answered.ptr[at].val.ok;
        }
        replies[at] = reply_of(&one);
    }
    free(answered.ptr);
}

windlass_error *backend_http(const windlass_http_request *request, windlass_http_response *response) {
    windlass_runtime_http_request_t asked = {
        .method = lent(request->method),
        .url = lent(request->url),
        .headers = {windlass_alloc(request->header_count * sizeof *asked.headers.ptr), request->header_count},
        .body = {(uint8_t *)request->body, request->body_length},
        .timeout_ms = {request->timeout_ms != 0, request->timeout_ms},
    };
    for (size_t at = 0; at < request->header_count; at++) {
        const windlass_header *header = &request->headers[at];
        asked.headers.ptr[at] = (contract_tuple2_string_string_t){lent(header->name), lent(header->value)};
    }
    windlass_runtime_http_response_t answered;
    wit_error error;
    if (!windlass_runtime_http_send(&asked, &answered, &error)) {
        return error_of(&error);
    }
    windlass_header *headers = windlass_alloc(answered.headers.len * sizeof *headers);
    for (size_t at = 0; at < answered.headers.len; at++) {
        headers[at] = (windlass_header){kept(answered.headers.ptr[at].f0), kept(answered.headers.ptr[at].f1)};
    }
    text body = {answered.body.ptr, answered.body.len};
    *response = (windlass_http_response){answered.status, headers, answered.headers.len, kept(body), answered.body.len};
    windlass_runtime_http_response_free(&answered);
    return NULL;
}

void backend_log(backend_level level, const char *message, const backend_field *fields, size_t count) {
    contract_list_tuple2_string_string_t pairs = {windlass_alloc(count * sizeof *pairs.ptr), count};
    for (size_t at = 0; at < count; at++) {
        pairs.ptr[at] = (contract_tuple2_string_string_t){lent(fields[at].name), lent(fields[at].value)};
    }
    text line = lent(message);
    windlass_runtime_log_write((uint8_t)level, &line, &pairs);
}

const char *backend_config(void) {
    text config;
    windlass_runtime_config_get(&config);
    char *copy = kept(config);
    contract_string_free(&config);
    return copy;
}

const char *backend_now(void) {
    text now;
    windlass_runtime_clock_now(&now);
    char *copy = kept(now);
    contract_string_free(&now);
    return copy;
}

bool backend_frees(void) {
    return true;
}

/* The bindings want an object file with the world's types linked; `windlass build` puts them in instead. */
void __component_type_object_force_link_contract(void);
void __component_type_object_force_link_contract(void) {}

/* ---- The exports ---- */

static text owned(const char *from) {
    text made;
    contract_string_dup(&made, from == NULL ? "" : well_formed(from));
    return made;
}

static contract_option_string_t owned_option(const char *from) {
    return from == NULL ? (contract_option_string_t){0} : (contract_option_string_t){true, owned(from)};
}

static windlass_runtime_types_group_version_kind_t owned_kind(windlass_kind kind) {
    return (windlass_runtime_types_group_version_kind_t){owned(kind.group), owned(kind.version), owned(kind.kind)};
}

static bool has_failed(windlass_result result) {
    return result.outcome == WINDLASS_RESULT_RETRY || result.outcome == WINDLASS_RESULT_TERMINAL;
}

/* Ends a call: closes its clusters and frees its memory. */
static void end(void) {
    while (opened != NULL) {
        windlass_cluster *cluster = opened;
        opened = cluster->before;
        windlass_runtime_client_cluster_drop_own(cluster->handle);
        free(cluster);
    }
    windlass_release((windlass_mark_t){NULL, 0});
}

/* An object of texts, in its order. */
static contract_list_tuple2_string_string_t owned_options(const json *from) {
    contract_list_tuple2_string_string_t options = {0};
    options.ptr = owned_items(json_count(from), sizeof *options.ptr);
    json_each(option, from) {
        const char *value = option->type == JSON_STRING ? option->text : json_print(option);
        options.ptr[options.len++] = (contract_tuple2_string_string_t){owned(option->name), owned(value)};
    }
    return options;
}

static exports_windlass_runtime_reconciler_watch_t owned_watch(const windlass_watch *from) {
    exports_windlass_runtime_reconciler_watch_t watch = {
        .kind = owned_kind(from->kind),
        .enqueue.tag = (uint8_t)from->enqueue,
        .clusters = (uint8_t)from->clusters,
        .label_selector = owned_option(from->labels),
        .field_selector = owned_option(from->fields),
        .metadata_only = from->metadata_only,
        .options = owned_options(from->options),
    };
    if (from->enqueue == WINDLASS_BY_INDEX) {
        watch.enqueue.val.by_index = owned(from->index);
    }
    watch.changes.ptr = owned_items(4, sizeof *watch.changes.ptr);
    for (uint8_t change = 0; change < 4; change++) {
        if ((from->changes >> change & 1) != 0) {
            watch.changes.ptr[watch.changes.len++] = change;
        }
    }
    if (watch.changes.len == 0) {
        free(watch.changes.ptr);
        watch.changes.ptr = NULL;
    }
    return watch;
}

bool exports_windlass_runtime_reconciler_describe(exports_windlass_runtime_reconciler_description_t *ret, text *err) {
    windlass_description description = {0};
    windlass_result result = windlass_this_guest.describe(&description);
    if (has_failed(result)) {
        *err = owned(result.message);
        end();
        return false;
    }
    *ret = (exports_windlass_runtime_reconciler_description_t){
        .title = owned(description.title),
        .options = owned_options(description.options),
    };
    if (description.primary.kind != NULL) {
        ret->primary.is_some = true;
        ret->primary.val = owned_kind(description.primary);
    }
    ret->watches.len = description.watch_count;
    ret->watches.ptr = owned_items(description.watch_count, sizeof *ret->watches.ptr);
    for (size_t at = 0; at < description.watch_count; at++) {
        ret->watches.ptr[at] = owned_watch(&description.watches[at]);
    }
    ret->indexes.len = description.index_count;
    ret->indexes.ptr = owned_items(description.index_count, sizeof *ret->indexes.ptr);
    for (size_t at = 0; at < description.index_count; at++) {
        const windlass_index *from = &description.indexes[at];
        ret->indexes.ptr[at] = (exports_windlass_runtime_reconciler_index_t){
            .kind = owned_kind(from->kind),
            .name = owned(from->name),
            .path = owned(from->path),
            .namespace_path = owned_option(from->namespace_path),
            .options = owned_options(from->options),
        };
    }
    end();
    return true;
}

static windlass_request request_of(exports_windlass_runtime_reconciler_request_t *from) {
    windlass_request request = {kept(from->cluster), {kept_option(from->key.namespace_), kept(from->key.name)}};
    windlass_runtime_types_request_free(from);
    return request;
}

bool exports_windlass_runtime_reconciler_reconcile(exports_windlass_runtime_reconciler_request_t *request,
                                                   exports_windlass_runtime_reconciler_own_cluster_t cluster,
                                                   exports_windlass_runtime_reconciler_action_t *ret,
                                                   exports_windlass_runtime_reconciler_failure_t *err) {
    windlass_request asked = request_of(request);
    windlass_result result = windlass_this_guest.reconcile(&asked, opened_cluster(cluster));
    bool good = !has_failed(result);
    if (!good) {
        bool terminal = result.outcome == WINDLASS_RESULT_TERMINAL;
        err->tag = terminal ? WINDLASS_RUNTIME_TYPES_FAILURE_TERMINAL : WINDLASS_RUNTIME_TYPES_FAILURE_RETRY;
        err->val.retry = owned(result.message);
    } else if (result.outcome == WINDLASS_RESULT_REQUEUE) {
        ret->tag = WINDLASS_RUNTIME_TYPES_ACTION_REQUEUE_AFTER_MS;
        ret->val.requeue_after_ms = result.after_ms;
    } else {
        ret->tag = WINDLASS_RUNTIME_TYPES_ACTION_DONE;
    }
    end();
    return good;
}

/* Exported in every world; a world without mapper ignores it. */
bool exports_windlass_runtime_mapper_map_objects(exports_windlass_runtime_mapper_own_cluster_t cluster,
                                                 exports_windlass_runtime_mapper_group_version_kind_t *kind,
                                                 exports_windlass_runtime_mapper_list_json_t *objects,
                                                 exports_windlass_runtime_mapper_list_request_t *ret, text *err) {
    if (windlass_this_guest.map == NULL) {
        *err = owned("the guest has no map function: register it with WINDLASS_MAPPED_RECONCILER");
        windlass_runtime_client_cluster_drop_own(cluster);
        return false;
    }
    windlass_kind of = {kept(kind->group), kept(kind->version), kept(kind->kind)};
    windlass_runtime_types_group_version_kind_free(kind);
    json *changed = json_array();
    windlass_error *odd = NULL;
    for (size_t at = 0; at < objects->len && odd == NULL; at++) {
        json *object = parsed(objects->ptr[at], &odd);
        if (object != NULL) {
            json_append(changed, object);
        }
    }
    exports_windlass_runtime_mapper_list_json_free(objects);
    if (odd != NULL) {
        *err = owned(windlass_failed(odd).message);
        windlass_runtime_client_cluster_drop_own(cluster);
        end();
        return false;
    }
    windlass_requests requests = {0};
    windlass_result result = windlass_this_guest.map(opened_cluster(cluster), of, changed, &requests);
    bool good = !has_failed(result);
    if (!good) {
        *err = owned(result.message);
    } else {
        ret->len = requests.count;
        ret->ptr = owned_items(requests.count, sizeof *ret->ptr);
        for (size_t at = 0; at < requests.count; at++) {
            const windlass_request *from = &requests.items[at];
            ret->ptr[at].cluster = owned(from->cluster);
            ret->ptr[at].key.namespace_ = owned_option(from->key.ns);
            ret->ptr[at].key.name = owned(from->key.name);
        }
    }
    end();
    return good;
}
