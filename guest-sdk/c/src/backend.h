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

typedef struct {
    const json *about;
    bool warning;
    const char *reason, *action, *note;
} backend_event;

const char *backend_name(windlass_cluster *cluster);
windlass_reply backend_call(windlass_cluster *cluster, const windlass_operation *operation);
void backend_batch(windlass_cluster *cluster, const windlass_operation *operations, size_t count, windlass_reply *replies);
void backend_record(windlass_cluster *cluster, const backend_event *event);

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

#endif
