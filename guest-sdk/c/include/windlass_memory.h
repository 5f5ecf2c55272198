/*
 * Unit tests of guests with the machine's own compiler, without a component: clusters in memory, which keep objects. Entry point:
 * windlass_memory_new.
 *
 *     windlass_memory *fleet = windlass_memory_new();
 *     windlass_memory_cluster *alpha = windlass_memory_add(fleet, "alpha");
 *     windlass_memory_put(alpha, asking);
 *     windlass_result result = windlass_memory_reconcile(alpha, windlass_this_guest.reconcile, key);
 *     assert(result.outcome == WINDLASS_RESULT_DONE);
 *     assert(windlass_memory_get(alpha, CONFIG_MAP, greeting) != NULL);
 *
 * The clusters are those of the in-memory API server of `windlass dev` and `windlass test`, which behaves as a real one does. The
 * first cluster of a process starts the program windlass: put it on the PATH, or name it in the variable WINDLASS_BIN. The
 * clusters serve the built-in kinds and those whose CustomResourceDefinitions the project has; windlass_memory_put and
 * windlass_memory_define add kinds without a schema. There are no indexes but that of dependents, and reads are never older than
 * the last write.
 *
 * The functions here act for the test: only calls of a guest are counted and can fail. Results live until the program ends. Where
 * each call and its options matter, take a script (windlass_test.h).
 */
#ifndef WINDLASS_MEMORY_H
#define WINDLASS_MEMORY_H

#include "windlass.h"
#include "windlass_test.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Clusters, and the configuration, time and log of a guest. */
typedef struct windlass_memory windlass_memory;
/* A cluster of a fleet. */
typedef struct windlass_memory_cluster windlass_memory_cluster;
/* How an API server fails. */
typedef enum { WINDLASS_MEMORY_UNREACHABLE, WINDLASS_MEMORY_ERRORS } windlass_memory_failure;

/* A fleet without clusters. */
windlass_memory *windlass_memory_new(void);
/* Sets the configuration as JSON; the default is an empty object. */
void windlass_memory_config(windlass_memory *fleet, const char *text);
/* Sets the time; the default is 2026-01-31T09:30:00.000Z. */
void windlass_memory_now(windlass_memory *fleet, const char *time);
/* An array of the guest's log lines: objects with level, message and fields. */
const json *windlass_memory_logs(const windlass_memory *fleet);

/* Answers calls of servers that are no API servers. Without this, each is denied. The context is that of serve; NULL for none. */
void windlass_memory_serve(windlass_memory *fleet, windlass_server *serve, void *context);

/* The cluster of this name, which is empty if it is new; "" is the local one. A guest can open no others. */
windlass_memory_cluster *windlass_memory_add(windlass_memory *fleet, const char *name);
/* Serves a kind without a schema in all clusters. Not needed for kinds that are built in, that the project has a definition of,
 * or of which the test puts an object. */
void windlass_memory_define(windlass_memory *fleet, windlass_kind kind, bool namespaced);
/* Adds to what windlass_clusters says of a cluster: objects of texts, NULL for none. */
void windlass_memory_info(windlass_memory_cluster *cluster, const json *labels, const json *properties);
/* Takes a label from a cluster. */
void windlass_memory_unlabel(windlass_memory_cluster *cluster, const char *key);
/* Takes a cluster out of the fleet: a guest neither sees nor opens it. It keeps its objects, which can still be got;
 * windlass_memory_add lets it join again, as another cluster of this name. */
void windlass_memory_leave(windlass_memory_cluster *cluster);
/* Makes the API server of a cluster fail, until it heals: no connection is made, or every request is answered with an error.
 * Guests get the errors of their calls, and see that one that is not reached is not ready. The test itself still reads and writes. */
void windlass_memory_fail(windlass_memory_cluster *cluster, windlass_memory_failure failure);
/* Ends the failure of a cluster's API server. */
void windlass_memory_heal(windlass_memory_cluster *cluster);

/* Stores an object as another writer would, by a server-side apply: creates it, or replaces the fields that an earlier put named.
 * Its namespace is made if there is none. With a deletionTimestamp it is deleted then, which finalizers hold up. The server sets
 * uid, versions and times. */
void windlass_memory_put(windlass_memory_cluster *cluster, const json *object);
/* Deletes an object as another writer would, and what has no other owner. Finalizers hold the object. */
void windlass_memory_remove(windlass_memory_cluster *cluster, windlass_kind kind, windlass_key key);
/* An object as it is stored now; NULL if there is none. */
json *windlass_memory_get(const windlass_memory_cluster *cluster, windlass_kind kind, windlass_key key);
/* An array of every object that the test and the guest have made, by apiVersion, kind, namespace and name. */
json *windlass_memory_objects(const windlass_memory_cluster *cluster);

/* Lets the next call of this verb fail, with the HTTP status that API servers return for the code. Several errors are used in
 * order, one for each call. */
void windlass_memory_fail_next(windlass_memory_cluster *cluster, windlass_verb verb, windlass_code code, const char *message);
/* How many calls of this verb the guest made here, failed ones too. */
size_t windlass_memory_calls(const windlass_memory_cluster *cluster, windlass_verb verb);
/* How many of the guest's calls were writes. */
size_t windlass_memory_writes(const windlass_memory_cluster *cluster);
/* An array of the events that the guest recorded here: objects with cluster, kind, about (namespace/name), type, reason, action
 * and note. */
const json *windlass_memory_events(const windlass_memory_cluster *cluster);

/* Runs a function of a guest for an object of the cluster: windlass_this_guest.reconcile is that of the guest that the program
 * registers. A second run should write nothing. */
windlass_result windlass_memory_reconcile(windlass_memory_cluster *cluster,
                                          windlass_result (*reconcile)(const windlass_request *request,
                                                                       windlass_cluster *cluster),
                                          windlass_key key);
/* Runs the map function of the guest that the program registers, for changed objects of the cluster. */
windlass_result windlass_memory_map(windlass_memory_cluster *cluster, windlass_kind kind, const json *objects,
                                    windlass_requests *requests);
/* The cluster as a guest sees it, for a test of a part of a guest. Its fleet is the host until another one runs. */
windlass_cluster *windlass_memory_client(windlass_memory_cluster *cluster);

#ifdef __cplusplus
}
#endif

#endif
