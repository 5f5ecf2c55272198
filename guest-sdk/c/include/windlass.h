/*
 * Write a Windlass guest in C: two functions and a macro.
 *
 *     static windlass_result describe(windlass_description *description);
 *     static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster);
 *
 *     WINDLASS_RECONCILER(describe, reconcile)
 *
 * The host watches what describe asks for, in every cluster of the fleet, and calls reconcile with a request and a cluster: the
 * API of the request's own cluster, within the grants of the operator.
 *
 * Memory. The results of a function (strings, JSON, errors, pages) belong to the guest's call and live until it ends. Nothing is
 * freed by hand, and nothing may be kept for a later call. Arguments still belong to the caller. A guest that makes
 * thousands of calls in one reconcile frees memory with windlass_mark and windlass_release.
 *
 * Errors. A call to a cluster returns NULL or an error. After an error its results are not set. WINDLASS_TRY
 * ends the reconcile with the error, which is retried with growing delay. A trap (abort, a wild pointer) is retried too.
 *
 * Options are a pointer to a struct whose zeros are the defaults; NULL is all defaults: &(windlass_get_options){.live = true}
 */
#ifndef WINDLASS_H
#define WINDLASS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "windlass_json.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WINDLASS_PRINTF(text, values) __attribute__((format(printf, text, values)))
#define WINDLASS_SENTINEL __attribute__((sentinel))
#else
#define WINDLASS_PRINTF(text, values)
#define WINDLASS_SENTINEL
#endif

/* ---- Words ---- */

/* Group ("" is the core group), version and kind. */
typedef struct {
    const char *group;
    const char *version;
    const char *kind;
} windlass_kind;

/* Clusters as objects of the local cluster, which a guest watches and lists as it does any kind: one for each cluster that a rule
 * opens. metadata.labels and annotations are the cluster's labels and properties, spec.name is its name in requests and for
 * windlass_open, status has state, ready and reason. The host makes them, and nobody writes them. */
#define WINDLASS_FLEET_CLUSTER ((windlass_kind){"fleet.windlass.dev", "v1alpha1", "Cluster"})

/* Namespace (NULL for cluster-scoped objects) and name. */
typedef struct {
    const char *ns;
    const char *name;
} windlass_key;

/* Names an object to reconcile, without the object and the event that caused it. The cluster "" is the local one. */
typedef struct {
    const char *cluster;
    windlass_key key;
} windlass_request;

/* Why a call failed. */
typedef enum {
    WINDLASS_NOT_FOUND,
    WINDLASS_ALREADY_EXISTS,
    WINDLASS_CONFLICT,
    WINDLASS_INVALID,
    WINDLASS_UNAUTHORIZED,
    WINDLASS_FORBIDDEN,
    /* Refused by the host: no rule grants it. The message contains the missing rule. */
    WINDLASS_DENIED,
    WINDLASS_UNKNOWN_KIND,
    WINDLASS_THROTTLED,
    /* A resource version or continue token is too old: start over. */
    WINDLASS_EXPIRED,
    WINDLASS_TIMEOUT,
    WINDLASS_UNAVAILABLE,
    WINDLASS_LIMIT_EXCEEDED,
    WINDLASS_CLUSTER_GONE,
    /* The host is ending this call: return now. */
    WINDLASS_CANCELLED,
    WINDLASS_OTHER
} windlass_code;

/* The contract's name of a code: "not-found". */
const char *windlass_code_name(windlass_code code);

/* A call that failed. */
typedef struct {
    /* The code to branch on. */
    windlass_code code;
    /* 0 where there was no answer. */
    int http_status;
    /* The API server's machine-readable reason, or the host's. */
    const char *reason;
    /* For people. */
    const char *message;
    /* The API server's details: field errors, causes; NULL where there are none. */
    json *details;
    /* The delay in milliseconds that the server asked for; -1 if it asked for none. The host keeps to it by itself. */
    int64_t retry_after_ms;
} windlass_error;

/* How describe, reconcile or map ends; made by the functions below. */
typedef struct {
    enum { WINDLASS_RESULT_DONE, WINDLASS_RESULT_REQUEUE, WINDLASS_RESULT_RETRY, WINDLASS_RESULT_TERMINAL } outcome;
    uint32_t after_ms;
    const char *message;
} windlass_result;

/* Nothing more to do until an event. */
windlass_result windlass_done(void);
/* Run again after this time, or earlier after an event. 0: at once, but at most every 100 ms for a key. The longest time is
 * UINT32_MAX (about 49 days). */
windlass_result windlass_requeue_after(uint64_t milliseconds);
/* Delays for people: windlass_requeue_after(WINDLASS_MINUTES(5)). */
#define WINDLASS_SECONDS(count) ((uint64_t)(count) * 1000)
#define WINDLASS_MINUTES(count) ((uint64_t)(count) * 60000)
#define WINDLASS_HOURS(count) ((uint64_t)(count) * 3600000)
/* Waits for something: no failure, but run again after this time, or earlier after an event. The message is in the log. */
windlass_result windlass_not_ready(uint64_t milliseconds, const char *format, ...) WINDLASS_PRINTF(2, 3);
/* Failed: run again with growing delay. */
windlass_result windlass_retry(const char *format, ...) WINDLASS_PRINTF(1, 2);
/* Failed: run again only after an event. */
windlass_result windlass_terminal(const char *format, ...) WINDLASS_PRINTF(1, 2);
/* Failed with an error of a call: run again with growing delay. */
windlass_result windlass_failed(const windlass_error *error);

/* Ends the function with windlass_failed if the call fails. */
#define WINDLASS_TRY(call)                                                                                                       \
    do {                                                                                                                         \
        const windlass_error *windlass_error_ = (call);                                                                          \
        if (windlass_error_ != NULL) {                                                                                           \
            return windlass_failed(windlass_error_);                                                                             \
        }                                                                                                                        \
    } while (0)

/* ---- What a guest is ---- */

/* How an event on a watched object becomes requests. */
typedef enum {
    /* The object itself. */
    WINDLASS_PRIMARY,
    /* The owner of the primary kind that controls it. */
    WINDLASS_CONTROLLER_OWNER,
    /* Every owner of the primary kind. */
    WINDLASS_ANY_OWNER,
    /* The primary object of the same namespace and name. */
    WINDLASS_SAME_NAME,
    /* Every primary object whose index holds this object's name or namespace/name. */
    WINDLASS_BY_INDEX,
    /* The guest's map function decides. */
    WINDLASS_MAPPED
} windlass_enqueue;

/* Which clusters a watch engages. */
typedef enum { WINDLASS_AS_CONFIGURED, WINDLASS_LOCAL, WINDLASS_PROVIDER, WINDLASS_ALL } windlass_scope;

/* Which changes of an object count, added up. Creation, deletion and a deletionTimestamp always count. */
enum { WINDLASS_GENERATION = 1, WINDLASS_LABELS = 2, WINDLASS_ANNOTATIONS = 4, WINDLASS_STATUS = 8 };

/* One kind to watch. */
typedef struct {
    windlass_kind kind;
    windlass_enqueue enqueue;
    /* The index of WINDLASS_BY_INDEX. */
    const char *index;
    windlass_scope clusters;
    /* As kubectl's -l; NULL: every object. */
    const char *labels;
    /* As kubectl's --field-selector, on metadata.name and metadata.namespace; NULL: every object. */
    const char *fields;
    /* Which changes count; 0: every one. */
    unsigned changes;
    /* Whether the guest needs only apiVersion, kind and metadata: the host then keeps no more. */
    bool metadata_only;
    /* For later versions of the host: an object of texts. A key that the host does not know fails the load. */
    const json *options;
} windlass_watch;

/* A lookup by the value of a field, kept by the host. */
typedef struct {
    windlass_kind kind;
    /* Unique for the kind. */
    const char *name;
    /* Dot-separated names, ['quoted'] ones, [*] for every element: spec.template.spec.volumes[*].configMap.name */
    const char *path;
    /* The path of the referenced object's namespace; NULL: the object's own namespace. */
    const char *namespace_path;
    /* As those of a watch. */
    const json *options;
} windlass_index;

/* The watches and indexes that a guest needs. They narrow the grants of the operator; anything outside fails the load. */
typedef struct {
    /* For people. */
    const char *title;
    /* The kind that requests name; if it is not set, the kind of the watch with WINDLASS_PRIMARY. */
    windlass_kind primary;
    /* Filled by windlass_add_watch and windlass_add_index. */
    windlass_watch *watches;
    size_t watch_count;
    windlass_index *indexes;
    size_t index_count;
    /* As those of a watch. */
    const json *options;
} windlass_description;

void windlass_add_watch(windlass_description *description, windlass_watch watch);
void windlass_add_index(windlass_description *description, windlass_index index);

/* One cluster's API. */
typedef struct windlass_cluster windlass_cluster;

/* Requests that a map function returns; filled by windlass_add_request. */
typedef struct {
    windlass_request *items;
    size_t count;
} windlass_requests;

void windlass_add_request(windlass_requests *requests, windlass_request request);

/* The functions of a guest. */
typedef struct {
    /* Sets what to watch. Called when the guest is loaded and when its config or grants change. Every call to a cluster is
     * denied. A failure fails the load. */
    windlass_result (*describe)(windlass_description *description);
    /* Brings the object that the request names to its desired state: read, compare, write the differences. */
    windlass_result (*reconcile)(const windlass_request *request, windlass_cluster *cluster);
    /* Adds the requests, of any granted cluster, for these changed objects of the cluster. An update passes the old and the new
     * object. */
    windlass_result (*map)(windlass_cluster *cluster, windlass_kind kind, const json *objects, windlass_requests *requests);
} windlass_guest;

/* Makes two functions the guest of this program. */
#define WINDLASS_RECONCILER(describe, reconcile) const windlass_guest windlass_this_guest = {describe, reconcile, NULL};

/* The same with a map function, for windlass.toml with world = "mapped-reconcile". */
#define WINDLASS_MAPPED_RECONCILER(describe, reconcile, map)                                                                     \
    const windlass_guest windlass_this_guest = {describe, reconcile, map};

extern const windlass_guest windlass_this_guest;

/* ---- Calls ---- */

typedef enum { WINDLASS_MERGE, WINDLASS_JSON_PATCH, WINDLASS_STRATEGIC_MERGE } windlass_patch_type;

/* Decides about the dependents of a deleted object. */
typedef enum { WINDLASS_DEFAULT_PROPAGATION, WINDLASS_BACKGROUND, WINDLASS_FOREGROUND, WINDLASS_ORPHAN } windlass_propagation;

typedef struct {
    /* From the API server instead of the host's cache. */
    bool live;
    /* Only apiVersion, kind and metadata. */
    bool metadata_only;
    /* "status", "scale": always read live. */
    const char *subresource;
} windlass_get_options;

typedef struct {
    /* NULL: all granted namespaces. */
    const char *ns;
    /* As kubectl's -l. */
    const char *labels;
    /* As kubectl's --field-selector. */
    const char *fields;
    /* Name and value of an index that describe declared. */
    const char *index, *value;
    /* The largest number of items in a page. 0: the host's page size. */
    uint32_t limit;
    /* The token of the previous page. */
    const char *continue_token;
    bool live;
    bool metadata_only;
} windlass_list_options;

typedef struct {
    /* "status", "scale"; NULL writes the object itself. */
    const char *subresource;
    /* Take fields over that another manager owns; for windlass_apply. */
    bool force;
    /* The server checks and answers, and stores nothing. */
    bool dry_run;
} windlass_write_options;

typedef struct {
    /* Only if the object has this uid and this version; otherwise the error conflict. */
    const char *uid, *resource_version;
    windlass_propagation propagation;
    /* Seconds; NULL: the default of the kind. */
    const uint32_t *grace_period;
    bool dry_run;
} windlass_delete_options;

/* One page of a list. */
typedef struct {
    /* An array of objects. */
    json *items;
    /* Asks for the next page; NULL on the last. */
    const char *continue_token;
    /* The version of the list. */
    const char *resource_version;
} windlass_page;

/* The name of a cluster; "" is the local one. */
const char *windlass_name(windlass_cluster *cluster);

/* Reads an object; NULL if there is none. */
windlass_error *windlass_get(windlass_cluster *cluster, windlass_kind kind, windlass_key key, const windlass_get_options *options,
                             json **object);
/* Reads a page of objects. */
windlass_error *windlass_list(windlass_cluster *cluster, windlass_kind kind, const windlass_list_options *options,
                              windlass_page *page);
/* Reads every selected object, page by page, into one array. */
windlass_error *windlass_list_all(windlass_cluster *cluster, windlass_kind kind, const windlass_list_options *options,
                                  json **items);
/* Every selected object, one after the other; a page is read only when it is needed. */
typedef struct {
    windlass_cluster *cluster;
    windlass_kind kind;
    windlass_list_options options;
    /* The next object of the page, and whether there may be another page. */
    json *next;
    bool more;
} windlass_iterator;

windlass_iterator windlass_iterate(windlass_cluster *cluster, windlass_kind kind, const windlass_list_options *options);
/* The next object; NULL after the last one. */
windlass_error *windlass_next(windlass_iterator *iterator, json **object);
/* Writes: each returns the object as stored, unless stored is NULL. The kind comes from the object. */
windlass_error *windlass_create(windlass_cluster *cluster, const json *object, const windlass_write_options *options,
                                json **stored);
windlass_error *windlass_update(windlass_cluster *cluster, const json *object, const windlass_write_options *options,
                                json **stored);
windlass_error *windlass_apply(windlass_cluster *cluster, const json *object, const windlass_write_options *options,
                               json **stored);
windlass_error *windlass_patch(windlass_cluster *cluster, windlass_kind kind, windlass_key key, windlass_patch_type type,
                               const json *patch, const windlass_write_options *options, json **stored);
/* Deletes an object, and sets deleted, unless it is NULL, to whether there was one. An absent object is no error. */
windlass_error *windlass_delete(windlass_cluster *cluster, windlass_kind kind, windlass_key key,
                                const windlass_delete_options *options, bool *deleted);
/* Deletes every object that ns, labels and fields of the list options select. */
windlass_error *windlass_delete_collection(windlass_cluster *cluster, windlass_kind kind, const windlass_list_options *selection,
                                           const windlass_delete_options *options);
/* Records an event about an object, as kubectl describe shows it; reason is one CamelCase word. Needs no rule, never fails. */
void windlass_event(windlass_cluster *cluster, const json *about, const char *reason, const char *format, ...)
    WINDLASS_PRINTF(4, 5);
/* The same, with the type Warning. */
void windlass_warning(windlass_cluster *cluster, const json *about, const char *reason, const char *format, ...)
    WINDLASS_PRINTF(4, 5);

/* All fields of an event. */
typedef struct {
    const json *about;
    /* Whether the event has the type Warning. */
    bool warning;
    /* The reason and the action, CamelCase words. An action of NULL is Reconcile. */
    const char *reason, *action;
    const char *note;
} windlass_event_record;

/* As windlass_event. */
void windlass_record_event(windlass_cluster *cluster, windlass_event_record event);

/* ---- Many calls at once ---- */

typedef enum {
    WINDLASS_OP_GET,
    WINDLASS_OP_LIST,
    WINDLASS_OP_CREATE,
    WINDLASS_OP_UPDATE,
    WINDLASS_OP_PATCH,
    WINDLASS_OP_APPLY,
    WINDLASS_OP_DELETE,
    /* Not in a batch. */
    WINDLASS_OP_DELETE_COLLECTION
} windlass_verb;

/* One call, with the arguments of the function of that name. */
typedef struct {
    windlass_verb verb;
    /* Not of create, update and apply: their object names the kind. */
    windlass_kind kind;
    windlass_key key;
    /* The object of a create, update or apply; the patch of a patch. */
    const json *object;
    windlass_patch_type patch_type;
    windlass_get_options get;
    windlass_list_options list;
    windlass_write_options write;
    windlass_delete_options deletion;
} windlass_operation;

/* The answer to one call. */
typedef struct {
    /* The error; the other fields are then not set. A delete of an absent object fails with not-found. */
    windlass_error *error;
    /* The object of a get, NULL if there is none, or of a write. */
    json *object;
    /* The page of a list: its items are set. */
    windlass_page page;
} windlass_reply;

/* Runs operations concurrently in the host; the replies are in the same order. */
windlass_reply *windlass_batch(windlass_cluster *cluster, const windlass_operation *operations, size_t count);

/* ---- Other clusters: windlass.toml with world = "fleet-reconcile", and rules that name clusters ---- */

/* The facts about a cluster that need no request to it. */
typedef struct {
    const char *name;
    /* Objects of texts. */
    json *labels, *properties;
    /* Whether the cluster answers and its caches are filled. */
    bool ready;
} windlass_cluster_info;

/* The granted clusters, sorted by name; labels as kubectl's -l, NULL for all. */
windlass_error *windlass_clusters(const char *labels, windlass_cluster_info **clusters, size_t *count);
/* Opens a cluster, "" the local one, until this call ends. */
windlass_error *windlass_open(const char *name, windlass_cluster **cluster);
/* As windlass_batch; the operation at index i runs in the cluster names[i]. */
windlass_reply *windlass_fleet_batch(const char *const *names, const windlass_operation *operations, size_t count);

/* ---- Servers that are no API servers: windlass.toml with world = "http-reconcile", and rules in spec.http ---- */

/* The name of a header, in which case does not matter, and its value. */
typedef struct {
    const char *name, *value;
} windlass_header;

/* A call. Zeros are the defaults, but the URL is needed. */
typedef struct {
    /* NULL: GET. */
    const char *method;
    /* Absolute. */
    const char *url;
    /* Not those that belong to the connection, such as Host. */
    const windlass_header *headers;
    size_t header_count;
    /* Bytes that are sent as they are. */
    const void *body;
    size_t body_length;
    /* Sent in place of body, with its type; NULL: none. */
    const json *json_body;
    /* Milliseconds for the whole call. 0: 30 s, and 10 s, which is the most, for all but GET and HEAD. */
    uint32_t timeout_ms;
} windlass_http_request;

/* An answer of any status. */
typedef struct {
    /* For example 200. */
    int status;
    /* Names in lower case. */
    const windlass_header *headers;
    size_t header_count;
    /* All of it, with a NUL after its end. */
    const char *body;
    size_t body_length;
} windlass_http_response;

/* Sends a request and waits for the answer. An error is a call without an answer: denied if no rule allows it, timeout or
 * unavailable. After one, a call that changes something may have happened all the same. */
windlass_error *windlass_http_send(const windlass_http_request *request, windlass_http_response *response);
/* Asks for a URL. */
windlass_error *windlass_http_get(const char *url, windlass_http_response *response);
/* NULL for the statuses 2xx. For others an error with that status, and the code that it has from an API server: 429 is throttled,
 * with retry_after_ms if the server says it in seconds. Its message has the beginning of the answer. */
windlass_error *windlass_http_success(const windlass_http_response *response);
/* Reads the body as JSON; the error is invalid if it is none. */
windlass_error *windlass_http_json(const windlass_http_response *response, json **value);
/* The first value of a header; NULL if there is none. */
const char *windlass_http_header(const windlass_http_response *response, const char *name);

/* ---- Log, configuration, time ---- */

/* Lines of the host's log: a constant message, then names and values, then NULL: windlass_info("greeted", "who", who, NULL). */
void windlass_debug(const char *message, ...) WINDLASS_SENTINEL;
void windlass_info(const char *message, ...) WINDLASS_SENTINEL;
void windlass_warn(const char *message, ...) WINDLASS_SENTINEL;
void windlass_log_error(const char *message, ...) WINDLASS_SENTINEL;

/* The reconciler's configuration; an empty object if there is none. Check it in describe too, so that a wrong configuration
 * fails the load. */
json *windlass_config(void);
/* The time, RFC 3339, UTC, milliseconds: 2026-01-31T09:30:00.000Z */
const char *windlass_now(void);

/* ---- Objects ---- */

/* An object with only its kind and key. */
json *windlass_object(windlass_kind kind, windlass_key key);
/* The key of an object. */
windlass_key windlass_key_of(const json *object);
/* The key of another object in the same namespace. */
windlass_key windlass_sibling(windlass_key key, const char *format, ...) WINDLASS_PRINTF(2, 3);
/* namespace/name, for people. */
const char *windlass_key_text(windlass_key key);
/* Value of a label, of an annotation; NULL if it has none. */
const char *windlass_label(const json *object, const char *name);
const char *windlass_annotation(const json *object, const char *name);
/* Whether the object is being deleted and waits for its finalizers. */
bool windlass_is_deleting(const json *object);
/* Makes owner, an object that was read, the controller of object, and keeps its other owners. The object is deleted after owner,
 * and an event on it enqueues owner. If the object has another controller, the error is conflict; if owner is in another
 * namespace, it is invalid. */
windlass_error *windlass_set_controller(json *object, const json *owner);
/* Adds owner, an object that was read, to the owners of object, unless it is one. The object is deleted after its last owner.
 * If owner is in another namespace, the error is invalid. */
windlass_error *windlass_set_owner(json *object, const json *owner);
/* The owner references that make an object that was read an owner, and the controller, of another one. */
json *windlass_owner_reference(const json *owner);
json *windlass_controller_reference(const json *owner);
/* The owner reference of the object's controller; NULL if it has none. */
json *windlass_controller(const json *object);

/* ---- What every controller needs ---- */

/* A condition in the status of an object. */
typedef struct {
    const char *type;
    /* "True", "False" or "Unknown". */
    const char *status;
    /* One CamelCase word. */
    const char *reason;
    /* For people; NULL: empty. */
    const char *message;
    /* The metadata.generation that the condition is about; 0: that of the object. */
    int64_t observed_generation;
} windlass_condition;

/* The condition of this type in status.conditions; NULL if there is none. */
json *windlass_get_condition(const json *object, const char *type);
/* Sets a condition in status.conditions of an object that was read, and returns whether that changed anything. Write it with
 * windlass_set_status. The transition time changes only if the status does; the order of the conditions, and fields unknown here,
 * are kept. */
bool windlass_set_condition(json *object, windlass_condition condition);

/* What a write that may have nothing to do did. */
typedef enum { WINDLASS_CREATED, WINDLASS_UPDATED, WINDLASS_UNCHANGED } windlass_effect;

/* The effect of a write, and the object as it is stored. */
typedef struct {
    windlass_effect effect;
    json *object;
} windlass_written;

/* windlass_apply with force, only if something differs: a field that is not as desired, or one that was applied by
 * windlass_ensure before and is no longer desired. The annotation windlass.dev/applied has a fingerprint of what was applied.
 * Here and below the result is set unless written is NULL. */
windlass_error *windlass_ensure(windlass_cluster *cluster, const json *object, windlass_written *written);
/* Reads an object, or begins one with only its kind and key, and lets change change it in place. Writes it only if that changed
 * it. The error is conflict if another wrote it meanwhile. */
windlass_error *windlass_create_or_update(windlass_cluster *cluster, windlass_kind kind, windlass_key key,
                                          void (*change)(json *object, void *context), void *context, windlass_written *written);
/* Gives the status these fields; null removes one. Reads the object and patches only what differs, at the version that was read:
 * the error is conflict if another wrote it meanwhile. */
windlass_error *windlass_set_status(windlass_cluster *cluster, windlass_kind kind, windlass_key key, const json *status,
                                    windlass_written *written);

/* Whether the object has this finalizer. */
bool windlass_has_finalizer(const json *object, const char *finalizer);
/* Adds a finalizer to an object that was read, unless it has it or is being deleted. The error is conflict if the object has
 * changed. */
windlass_error *windlass_ensure_finalizer(windlass_cluster *cluster, const json *object, const char *finalizer,
                                          windlass_written *written);
/* Removes a finalizer from an object that was read, if it has it. The error is conflict if the object has changed. */
windlass_error *windlass_remove_finalizer(windlass_cluster *cluster, const json *object, const char *finalizer,
                                          windlass_written *written);

/* Why an object is not ready; NULL if it is. Deployments, StatefulSets, Services, Jobs and PersistentVolumeClaims are ready by
 * their own rules, other objects by their condition Ready, else Available. An object without them is ready once it exists. */
const char *windlass_readiness(const json *object);

/* The objects that a primary object should have. A dependent of the same namespace, or of a cluster-scoped primary object, is
 * owned by it; another one has only the label windlass.dev/owner. */
typedef struct {
    /* The kinds of the dependents. An object of one of them that is no longer desired is deleted. */
    const windlass_kind *kinds;
    size_t kind_count;
    /* Those of the kinds whose objects are deleted and created again if the server does not take a change (HTTP 422), as of a field
     * that is immutable. */
    const windlass_kind *recreate;
    size_t recreate_count;
    /* Held by the primary object until its deletion is done; NULL: none. Needed for clean-ups, and for dependents that it cannot
     * own. */
    const char *finalizer;
    /* Why an object is not ready; NULL if it is. Default: windlass_readiness. */
    const char *(*ready)(const json *object, void *context);
    /* When to look again while something is not ready and no event comes, in milliseconds; 0: 10 s. */
    uint64_t recheck_ms;
    /* Further fields of the primary object's status; NULL: none. */
    const json *status;
    /* Runs when the primary object is being deleted, and may run several times; NULL: nothing. Another result than windlass_done
     * ends the reconcile. */
    windlass_result (*cleanup)(windlass_cluster *cluster, const json *primary, void *context);
    /* For ready and cleanup. */
    void *context;
} windlass_dependents;

/* Adds the watches, so that an event on a dependent asks for its owner, and the indexes. */
void windlass_add_dependents(windlass_description *description, const windlass_dependents *dependents);
/* Applies the desired objects, an array, deletes those that are no longer desired, and sets the conditions Ready and Progressing
 * of the primary object, which must have been read. A failure of one keeps none of the others from being applied or deleted. If
 * the primary object is being deleted, it runs the clean-up, deletes the dependents that are not owned, and removes the
 * finalizer. */
windlass_result windlass_reconcile_dependents(windlass_cluster *cluster, const json *primary, const json *desired,
                                              const windlass_dependents *dependents);

/* ---- Memory of the call ---- */

/* Zeroed memory that lives until the call ends. */
void *windlass_alloc(size_t size);
char *windlass_format(const char *format, ...) WINDLASS_PRINTF(1, 2);
char *windlass_vformat(const char *format, va_list values);

/* A mark in the memory of the call. */
typedef struct {
    void *block;
    size_t used;
} windlass_mark_t;

windlass_mark_t windlass_mark(void);
/* Frees the memory that was allocated since the mark. */
void windlass_release(windlass_mark_t mark);

#ifdef __cplusplus
}
#endif

#endif
