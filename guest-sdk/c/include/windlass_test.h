/*
 * Unit tests of guests with the machine's own compiler, without a component: a script of expected calls and their answers.
 *
 *     windlass_script *script = windlass_script_new("alpha");
 *     windlass_expect(script, (windlass_operation){.verb = WINDLASS_OP_GET, .kind = CONFIG_MAP, .key = key},
 *                     (windlass_reply){.object = asking});
 *     windlass_result result = windlass_script_reconcile(script, key);
 *     assert(result.outcome == WINDLASS_RESULT_DONE);
 *
 * A call that is not the next one of the script ends the program and prints the expected and the actual call; so do calls that
 * are left at the end. The script records events and log lines. The guest is the one that the program registers. The results and
 * records of a script live until the program ends.
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
/* Sets the configuration as JSON; the default is an empty object. */
void windlass_script_config(windlass_script *script, const char *text);
/* Sets the time; the default is 2026-01-31T09:30:00.000Z. */
void windlass_script_now(windlass_script *script, const char *time);

/* Sets the answer to a call of a server that is no API server, which is empty and has the status 200 at first. The request has a
 * method, and a body in place of its JSON. What the answer points to is read after serve has returned. */
typedef void windlass_server(void *context, const windlass_http_request *request, windlass_http_response *response);
/* Answers such calls, which are no part of the script. Without this, each is denied. The context is that of serve; NULL for none. */
void windlass_script_serve(windlass_script *script, windlass_server *serve, void *context);

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

/* An error for an answer. */
windlass_error *windlass_error_new(windlass_code code, int http_status, const char *message);

/* Run the guest; no expected call may be left at the end. */
windlass_result windlass_script_reconcile(windlass_script *script, windlass_key key);
windlass_result windlass_script_describe(windlass_script *script, windlass_description *description);
windlass_result windlass_script_map(windlass_script *script, windlass_kind kind, const json *objects,
                                    windlass_requests *requests);

/* An array of the events that the guest recorded: objects with cluster, about (namespace/name), type, reason, action and note. */
const json *windlass_script_events(const windlass_script *script);
/* An array of the guest's log lines: objects with level, message and fields. */
const json *windlass_script_logs(const windlass_script *script);

#ifdef __cplusplus
}
#endif

#endif
