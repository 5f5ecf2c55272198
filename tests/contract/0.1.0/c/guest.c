/*
 * A guest of the contract 0.1.0 in C, on bindings of the pinned WIT and nothing else; what it does is told in ../README.md. What
 * the host allocated is not freed: an instance serves one call.
 */

#define _GNU_SOURCE

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract.h"

typedef contract_string_t text;
typedef windlass_runtime_client_borrow_cluster_t handle;
typedef windlass_runtime_client_group_version_kind_t kind;
typedef windlass_runtime_client_object_key_t object_key;
typedef windlass_runtime_client_api_error_t api_error;
typedef exports_windlass_runtime_reconciler_watch_t watch;
typedef exports_windlass_runtime_reconciler_index_t field_index;

/* The generator expects an object file with the world's description; the build embeds that in the component itself. */
void __component_type_object_force_link_contract(void);
void __component_type_object_force_link_contract(void) {}

/* Text that is freed with what it is put into. */
static text owned(const char *from) {
    text copy;
    contract_string_dup(&copy, from);
    return copy;
}

static kind core(const char *name) {
    return (kind){owned(""), owned("v1"), owned(name)};
}

/* Text as printf would print it. */
__attribute__((format(printf, 1, 2))) static text printed(const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    text made = {malloc((size_t)length + 1), (size_t)length};
    vsnprintf((char *)made.ptr, made.len + 1, format, again);
    va_end(again);
    va_end(arguments);
    return made;
}

/* A text for `%.*s`. */
#define SHOWN(of) (int)(of).len, (const char *)(of).ptr

bool exports_windlass_runtime_reconciler_describe(exports_windlass_runtime_reconciler_description_t *ret, text *err) {
    (void)err;
    watch *watches = calloc(2, sizeof *watches);
    watches[0].kind = core("ConfigMap");
    watches[0].enqueue.tag = EXPORTS_WINDLASS_RUNTIME_RECONCILER_ENQUEUE_CONTROLLER_OWNER;
    watches[1].kind = core("Secret");
    watches[1].enqueue.tag = EXPORTS_WINDLASS_RUNTIME_RECONCILER_ENQUEUE_MAPPED;
    watches[1].label_selector = (contract_option_string_t){true, owned("contract.windlass.dev/ask")};
    watches[1].metadata_only = true;
    field_index *color = calloc(1, sizeof *color);
    color->kind = core("ConfigMap");
    color->name = owned("color");
    color->path = owned("data.color");
    *ret = (exports_windlass_runtime_reconciler_description_t){
        .title = owned("a guest of the contract 0.1.0"),
        .primary = {true, core("ConfigMap")},
        .watches = {watches, 2},
        .indexes = {color, 1},
    };
    return true;
}

static object_key beside(const object_key *key, const char *suffix) {
    return (object_key){key->namespace_, printed("%.*s%s", SHOWN(key->name), suffix)};
}

static text config_map(const object_key *key, text data) {
    return printed("{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", "
                   "\"metadata\": {\"namespace\": \"%.*s\", \"name\": \"%.*s\"}, \"data\": %.*s}",
                   SHOWN(key->namespace_.val), SHOWN(key->name), SHOWN(data));
}

/* Whether the object is there, read live, has been patched. */
static bool is_patched(handle cluster, const object_key *key) {
    windlass_runtime_client_operation_t get = {.tag = WINDLASS_RUNTIME_CLIENT_OPERATION_GET};
    get.val.get.f0 = core("ConfigMap");
    get.val.get.f1 = *key;
    get.val.get.f2.mode = WINDLASS_RUNTIME_CLIENT_READ_MODE_LIVE;
    windlass_runtime_client_list_operation_t operations = {&get, 1};
    windlass_runtime_client_list_result_reply_api_error_t replies;
    windlass_runtime_client_method_cluster_batch(cluster, &operations, &replies);
    if (replies.len != 1 || replies.ptr->is_err || replies.ptr->val.ok.tag != WINDLASS_RUNTIME_CLIENT_REPLY_OBJECT) {
        return false;
    }
    text object = replies.ptr->val.ok.val.object;
    return memmem(object.ptr, object.len, "patched", strlen("patched")) != NULL;
}

/* All that a reconcile does where the object is there. */
static bool run(handle cluster, object_key *key, api_error *err) {
    kind maps = core("ConfigMap");
    windlass_runtime_client_list_options_t listing = {
        .namespace_ = key->namespace_,
        .index = {true, {owned("color"), owned("red")}},
    };
    windlass_runtime_client_list_page_t red;
    if (!windlass_runtime_client_method_cluster_list(cluster, &maps, &listing, &red, err)) {
        return false;
    }

    object_key made = beside(key, "-made");
    windlass_runtime_client_write_options_t writing = {0};
    text config, answer, patch = owned("{\"data\": {\"patched\": \"yes\"}}");
    windlass_runtime_config_get(&config);
    text object = config_map(&made, config);
    if (!windlass_runtime_client_method_cluster_create(cluster, &maps, &object, &writing, &answer, err) &&
        err->code != WINDLASS_RUNTIME_TYPES_API_CODE_ALREADY_EXISTS) {
        return false;
    }
    uint8_t merge = WINDLASS_RUNTIME_CLIENT_PATCH_TYPE_MERGE;
    if (!windlass_runtime_client_method_cluster_patch(cluster, &maps, &made, merge, &patch, &writing, &answer, err)) {
        return false;
    }

    int absent = 200;
    object_key nobody = {key->namespace_, owned("absent")};
    windlass_runtime_client_delete_options_t deleting = {0};
    if (!windlass_runtime_client_method_cluster_delete(cluster, &maps, &nobody, &deleting, err)) {
        if (err->code != WINDLASS_RUNTIME_TYPES_API_CODE_NOT_FOUND) {
            return false;
        }
        absent = err->http_status;
    }

    windlass_runtime_fleet_list_cluster_info_t clusters;
    if (!windlass_runtime_fleet_clusters(NULL, &clusters, err)) {
        return false;
    }
    text names = owned("");
    for (size_t at = 0; at < clusters.len; at++) {
        names = printed("%.*s%s%.*s", SHOWN(names), at == 0 ? "" : " ", SHOWN(clusters.ptr[at].name));
    }
    windlass_runtime_fleet_own_cluster_t other;
    if (!windlass_runtime_fleet_open(&names, &other, err)) {
        return false;
    }
    text opened, now;
    windlass_runtime_client_method_cluster_name(windlass_runtime_client_borrow_cluster(other), &opened);
    windlass_runtime_client_cluster_drop_own(other);
    windlass_runtime_clock_now(&now);

    object_key seen = beside(key, "-seen");
    const char *read = is_patched(cluster, &made) ? "true" : "false";
    object = config_map(&seen, printed("{\"red\": \"%zu\", \"absent\": \"%d\", \"read\": \"%s\", \"clusters\": \"%.*s\", "
                                       "\"opened\": \"%.*s\", \"now\": \"%zu\"}",
                                       red.items.len, absent, read, SHOWN(names), SHOWN(opened), now.len));
    windlass_runtime_client_apply_options_t applying = {.force = true};
    if (!windlass_runtime_client_method_cluster_apply(cluster, &maps, &object, &applying, &answer, err)) {
        return false;
    }
    windlass_runtime_client_event_t event = {
        .kind = maps,
        .key = *key,
        .event_type = WINDLASS_RUNTIME_CLIENT_EVENT_TYPE_NORMAL,
        .reason = owned("Seen"),
        .action = owned("Reconcile"),
        .note = owned("a guest of the contract 0.1.0 was here"),
    };
    windlass_runtime_client_method_cluster_record_event(cluster, &event);
    text message = owned("seen");
    contract_tuple2_string_string_t name = {owned("name"), key->name};
    contract_list_tuple2_string_string_t fields = {&name, 1};
    windlass_runtime_log_write(WINDLASS_RUNTIME_LOG_LEVEL_INFO, &message, &fields);
    return true;
}

bool exports_windlass_runtime_reconciler_reconcile(exports_windlass_runtime_reconciler_request_t *request,
                                                   exports_windlass_runtime_reconciler_own_cluster_t own,
                                                   exports_windlass_runtime_reconciler_action_t *ret,
                                                   exports_windlass_runtime_reconciler_failure_t *failure) {
    handle cluster = windlass_runtime_client_borrow_cluster(own);
    kind maps = core("ConfigMap");
    windlass_runtime_client_get_options_t reading = {0};
    windlass_runtime_client_option_json_t found = {0};
    api_error err;
    bool good = windlass_runtime_client_method_cluster_get(cluster, &maps, &request->key, &reading, &found, &err);
    if (good && !found.is_some) {
        failure->tag = WINDLASS_RUNTIME_TYPES_FAILURE_TERMINAL;
        failure->val.terminal = printed("there is no %.*s", SHOWN(request->key.name));
        good = false;
    } else if (!good || !run(cluster, &request->key, &err)) {
        failure->tag = WINDLASS_RUNTIME_TYPES_FAILURE_RETRY;
        failure->val.retry = err.message;
        good = false;
    }
    windlass_runtime_client_cluster_drop_own(own);
    ret->tag = WINDLASS_RUNTIME_TYPES_ACTION_REQUEUE_AFTER_MS;
    ret->val.requeue_after_ms = 60000;
    return good;
}

bool exports_windlass_runtime_mapper_map_objects(exports_windlass_runtime_mapper_own_cluster_t cluster,
                                                 exports_windlass_runtime_mapper_group_version_kind_t *of,
                                                 exports_windlass_runtime_mapper_list_json_t *objects,
                                                 exports_windlass_runtime_mapper_list_request_t *ret, text *err) {
    if (strncmp((const char *)of->kind.ptr, "Secret", of->kind.len) != 0 || objects->len == 0) {
        *err = printed("%zu %.*s", objects->len, SHOWN(of->kind));
        return false;
    }
    *ret = (exports_windlass_runtime_mapper_list_request_t){calloc(1, sizeof *ret->ptr), 1};
    windlass_runtime_client_method_cluster_name(windlass_runtime_client_borrow_cluster(cluster), &ret->ptr->cluster);
    ret->ptr->key = (object_key){{true, owned("default")}, owned("case")};
    windlass_runtime_client_cluster_drop_own(cluster);
    return true;
}
