/* The case about servers that are no API servers. */

#include "words.h"

static const char *text_of(const windlass_http_response *answer, const char *header) {
    const char *value = windlass_http_header(answer, header);
    return value == NULL ? "none" : value;
}

/* A call with a body and a header that is the operator's. */
static windlass_error *post(const char *server) {
    json *wanted = json_set(json_object(), "count", json_number(3));
    const windlass_header headers[] = {{"x-key", "k"}, {"authorization", "own"}};
    const windlass_http_request request = {.method = "POST",
                                           .url = windlass_format("%s/body", server),
                                           .headers = headers,
                                           .header_count = 2,
                                           .json_body = json_set(wanted, "text", json_string("żółty"))};
    windlass_http_response answer;
    json *got;
    windlass_error *error = windlass_http_send(&request, &answer);
    if (error == NULL) {
        error = windlass_http_success(&answer);
    }
    if (error == NULL) {
        error = windlass_http_json(&answer, &got);
    }
    if (error == NULL) {
        windlass_info("posted", "status", number(answer.status), "type", text_of(&answer, "content-type"), "count",
                      shown(got, "/count"), "text", shown(got, "/text"), NULL);
    }
    return error;
}

/* Calls that a rule allows, one without an answer, and calls that no rule
 * allows. */
windlass_result calling(const scene *scene) {
    const char *server = shown(scene->primary, "/data/server");
    const windlass_header key = {"x-key", "k"};
    const windlass_http_request get = {.url = windlass_format("%s/status/429", server), .headers = &key, .header_count = 1};
    windlass_http_response answer;
    WINDLASS_TRY(windlass_http_send(&get, &answer));
    windlass_info("answered", "status", number(answer.status), "wait", text_of(&answer, "retry-after"), "body", answer.body, NULL);
    windlass_error *failed = windlass_http_success(&answer);
    if (failed != NULL) {
        windlass_info("failed", "status", number(failed->http_status), "message", failed->message, "wait",
                      failed->retry_after_ms < 0 ? "none" : number(failed->retry_after_ms), NULL);
    }
    WINDLASS_TRY(post(server));
    const struct {
        const char *name;
        windlass_http_request request;
    } calls[] = {
        {"late", {.url = windlass_format("%s/never", server), .timeout_ms = 100}},
        {"method", {.method = "DELETE", .url = windlass_format("%s/body", server)}},
        {"host", {.url = "https://api.example.com/v1"}},
    };
    for (size_t at = 0; at < sizeof calls / sizeof *calls; at++) {
        windlass_error *error = windlass_http_send(&calls[at].request, &answer);
        if (error != NULL) {
            refused(calls[at].name, error);
        }
    }
    return windlass_done();
}
