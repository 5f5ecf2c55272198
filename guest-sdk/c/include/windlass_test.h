/*
 * Unit tests of guests with the machine's own compiler, without a component: a script of expected calls and their answers.
 *
 *     windlass_script *script = windlass_script_new("alpha");
 *     windlass_expect(script, (windlass_operation){.verb = WINDLASS_OP_GET, .kind = CONFIG_MAP, .key = key},
 *                     (windlass_reply){.object = asking});
 *     windlass_result result = windlass_script_reconcile(script, key);
 *     assert(result.outcome == WINDLASS_RESULT_DONE);
 *
 * A call that is not the next one of the script ends the program with what was expected and what came; so do expectations that
 * are left over. Events and lines of the log are no calls: they are kept. The guest is the one that the program registers. What a
 * script answers and keeps lives until the program ends.
 */
#ifndef WINDLASS_TEST_H
#define WINDLASS_TEST_H

#include "windlass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The host of a test. */
typedef struct windlass_script windlass_script;

/* A script whose requests are of this cluster. */
windlass_script *windlass_script_new(const char *cluster);
/* What the operator configured, as JSON; an empty object if it is not told. */
void windlass_script_config(windlass_script *script, const char *text);
/* The time; 2026-01-31T09:30:00.000Z if it is not told. */
void windlass_script_now(windlass_script *script, const char *time);

/* The next call in the cluster of the requests, and its answer. */
void windlass_expect(windlass_script *script, windlass_operation operation, windlass_reply reply);
/* The next call in another cluster. */
void windlass_expect_in(windlass_script *script, const char *cluster, windlass_operation operation, windlass_reply reply);
/* The next batch in the cluster of the requests. */
void windlass_expect_batch(windlass_script *script, const windlass_operation *operations, const windlass_reply *replies,
                           size_t count);
/* The next batch over clusters. */
void windlass_expect_fleet_batch(windlass_script *script, const char *const *names, const windlass_operation *operations,
                                 const windlass_reply *replies, size_t count);
/* The next windlass_open; error NULL opens the cluster. */
void windlass_expect_open(windlass_script *script, const char *name, windlass_error *error);
/* The next windlass_clusters. */
void windlass_expect_clusters(windlass_script *script, const char *labels, const windlass_cluster_info *clusters, size_t count);

/* An error to answer with. */
windlass_error *windlass_error_new(windlass_code code, int http_status, const char *message);

/* Run the guest; nothing may be left over at their end. */
windlass_result windlass_script_reconcile(windlass_script *script, windlass_key key);
windlass_result windlass_script_describe(windlass_script *script, windlass_description *description);
windlass_result windlass_script_map(windlass_script *script, windlass_kind kind, const json *objects,
                                    windlass_requests *requests);

/* An array of the events that the guest recorded: objects with cluster, about (namespace/name), type, reason, action and note. */
const json *windlass_script_events(const windlass_script *script);
/* An array of its lines of the log: objects with level, message and fields. */
const json *windlass_script_logs(const windlass_script *script);

#ifdef __cplusplus
}
#endif

#endif
