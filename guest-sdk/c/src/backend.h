/*
 * What is below the SDK: the host inside a component (component.c), a script in a unit test (testing/script.c).
 * Everything answered lives in the memory of the call.
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

void backend_log(backend_level level, const char *message, const backend_field *fields, size_t count);
const char *backend_config(void);
const char *backend_now(void);

/* Whether windlass_release frees: a script keeps what it was told until its program ends. */
bool backend_frees(void);

/* The kind that an object says it is of. A wrong object ends the program: it is a mistake of the guest's code. */
windlass_kind windlass_kind_of(const json *object);

/* As json_parse. Of text that is no JSON, begun is what was read until then: NULL, or an array or object without its end. */
json *json_begun(const char *text, size_t length, const char **why, const json **begun);

/* An object that the host answered. One that cannot be read is the error invalid, which names the object as far as it was read.
 */
json *json_of_host(const char *text, size_t length, windlass_error **error);

/* Text as it can cross to the host, which traps what is no UTF-8: each byte that is none becomes U+FFFD. */
const char *well_formed(const char *text);

#endif
