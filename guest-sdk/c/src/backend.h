/*
 * The host below the SDK: the real host inside a component (component.c), a script or a fleet in memory in a unit test
 * (testing/test_host.c). All results live in the memory of the call.
 */
#ifndef WINDLASS_BACKEND_H
#define WINDLASS_BACKEND_H

#include "windlass.h"

typedef enum { BACKEND_DEBUG, BACKEND_INFO, BACKEND_WARN, BACKEND_ERROR } backend_level;

/* A name and its value. */
typedef struct {
    const char *name, *value;
} backend_field;

const char *backend_name(windlass_cluster *cluster);
windlass_reply backend_call(windlass_cluster *cluster, const windlass_operation *operation);
void backend_batch(windlass_cluster *cluster, const windlass_operation *operations, size_t count, windlass_reply *replies);
void backend_record(windlass_cluster *cluster, const windlass_event_record *event);

windlass_error *backend_clusters(const char *labels, windlass_cluster_info **clusters, size_t *count);
windlass_error *backend_open(const char *name, windlass_cluster **cluster);
void backend_fleet_batch(const char *const *names, const windlass_operation *operations, size_t count, windlass_reply *replies);

/* The request has a method, and no JSON but a body. */
windlass_error *backend_http(const windlass_http_request *request, windlass_http_response *response);

void backend_log(backend_level level, const char *message, const backend_field *fields, size_t count);
const char *backend_config(void);
const char *backend_now(void);

/* Whether windlass_release frees memory: a script keeps its data until the program ends. */
bool backend_frees(void);

/* The kind that an object names. A wrong object ends the program, because it is a bug of the guest. */
windlass_kind windlass_kind_of(const json *object);

/* An error that no server answered. */
windlass_error *sdk_failure(windlass_code code, const char *reason, const char *message);

/* Whether both are texts, and the same one. */
bool sdk_same_text(const char *one, const char *other);

/* Kind, namespace and name of an object, for people. */
const char *sdk_named(const json *object);

/* Whether an owner of the object has this uid. */
bool sdk_is_owned_by(const json *object, const char *uid);

/* Sets the result of a write, unless it is NULL; always returns NULL. */
windlass_error *sdk_wrote(windlass_written *written, windlass_effect effect, json *object);

/* Patches the fields of the status that differ from an object that was read. */
windlass_error *sdk_write_status(windlass_cluster *cluster, windlass_kind kind, windlass_key key, json *present,
                                 const json *status, windlass_written *written);

/* An object as it should be, and the fingerprint of its fields. */
typedef struct {
    json *object;
    const char *print;
} sdk_desired;

/* Of a copy without what is the server's to set. */
sdk_desired sdk_desired_of(const json *object);

/* Whether this was applied, and no field of it has changed since. */
bool sdk_held_by(const sdk_desired *desired, const json *present);

/* Whether this was applied to an object, whatever the object is now. */
bool sdk_was_applied_to(const sdk_desired *desired, const json *present);

/* As it is applied to an object, or to none. What the server made of the same fields before, it will make again. */
json *sdk_next(const sdk_desired *desired, const json *present);

/* As it is applied once more, with a note of what the server has made of it. */
json *sdk_noted(const sdk_desired *desired, const json *stored);

/* FNV-1a over a value, with sorted names: the same for equal values, in every language's SDK. */
const char *sdk_fingerprint(const json *value);

/* As json_parse. If the text is not JSON, begun is the part that was read: NULL, or an array or object without its end. */
json *json_begun(const char *text, size_t length, const char **why, const json **begun);

/* Reads an object that the host returned. If it cannot be read, the error is invalid, and its message names the object if its
 * name was read. */
json *json_of_host(const char *text, size_t length, windlass_error **error);

/* Replaces each byte that is not UTF-8 by U+FFFD: a call with other text would trap. */
const char *well_formed(const char *text);

#endif
