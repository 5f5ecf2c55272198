/* Calls of servers that are no API servers. Each test is named after the fact that it states. */

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "windlass.h"
#include "windlass_test.h"

static const windlass_key A = {"default", "a"};

/* The function of the guest: each test has its own. */
static windlass_result (*body)(const windlass_request *request, windlass_cluster *cluster);

static windlass_result describe(windlass_description *description) {
    (void)description;
    return windlass_done();
}

static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    return body(request, cluster);
}

WINDLASS_RECONCILER(describe, reconcile)

static const char *value_of(const windlass_http_request *request, const char *name) {
    windlass_http_response headers = {.headers = request->headers, .header_count = request->header_count};
    return windlass_http_header(&headers, name);
}

/* Answers a GET with its URL, and other requests with what they send. */
static void echo(void *context, const windlass_http_request *request, windlass_http_response *response) {
    size_t *calls = context;
    ++*calls;
    assert(request->json_body == NULL);
    if (strcmp(request->method, "GET") == 0) {
        response->body = request->url;
        response->body_length = strlen(request->url);
        return;
    }
    const char *type = value_of(request, "Content-Type"), *own = value_of(request, "x-a");
    static windlass_header headers[2];
    headers[0] = (windlass_header){"ETag", type == NULL ? "none" : type};
    headers[1] = (windlass_header){"X-Own", own == NULL ? "none" : own};
    *response = (windlass_http_response){201, headers, 2, request->body, request->body_length};
}

static windlass_result asks(const windlass_request *request, windlass_cluster *cluster) {
    (void)request, (void)cluster;
    windlass_http_response answer;
    json *value;
    WINDLASS_TRY(windlass_http_get("https://a.example.com/", &answer));
    assert(answer.status == 200 && strcmp(answer.body, "https://a.example.com/") == 0 && answer.header_count == 0);
    assert(windlass_http_json(&answer, &value)->code == WINDLASS_INVALID);
    windlass_http_request put = {
        .method = "PUT",
        .url = "https://a.example.com/",
        .headers = &(windlass_header){"X-A", "1"},
        .header_count = 1,
        .json_body = json_literal("[1]"),
    };
    WINDLASS_TRY(windlass_http_send(&put, &answer));
    assert(answer.status == 201 && windlass_http_success(&answer) == NULL);
    assert(strcmp(answer.headers[0].name, "etag") == 0);
    assert(strcmp(windlass_http_header(&answer, "ETAG"), "application/json") == 0);
    assert(strcmp(windlass_http_header(&answer, "x-own"), "1") == 0 && windlass_http_header(&answer, "none") == NULL);
    WINDLASS_TRY(windlass_http_json(&answer, &value));
    assert(json_same(value, json_literal("[1]")));
    put.headers = &(windlass_header){"content-type", "application/merge-patch+json"};
    WINDLASS_TRY(windlass_http_send(&put, &answer));
    assert(strcmp(windlass_http_header(&answer, "etag"), "application/merge-patch+json") == 0);
    windlass_http_request bytes = {.method = "POST", .url = "https://a.example.com/", .body = "\0\377", .body_length = 2};
    WINDLASS_TRY(windlass_http_send(&bytes, &answer));
    assert(answer.body_length == 2 && memcmp(answer.body, "\0\377", 3) == 0);
    assert(strcmp(windlass_http_header(&answer, "etag"), "none") == 0);
    return windlass_done();
}

static void a_test_answers_what_a_guest_asks(void) {
    size_t calls = 0;
    windlass_script *script = windlass_script_new("alpha");
    windlass_script_serve(script, echo, &calls);
    body = asks;
    assert(windlass_script_reconcile(script, A).outcome == WINDLASS_RESULT_DONE && calls == 4);
}

static windlass_result asks_once(const windlass_request *request, windlass_cluster *cluster) {
    (void)request, (void)cluster;
    windlass_http_response answer;
    WINDLASS_TRY(windlass_http_get("https://a.example.com/", &answer));
    WINDLASS_TRY(windlass_http_success(&answer));
    return windlass_done();
}

static void without_answers_every_call_is_denied(void) {
    body = asks_once;
    windlass_result result = windlass_script_reconcile(windlass_script_new("alpha"), A);
    assert(result.outcome == WINDLASS_RESULT_RETRY && strncmp(result.message, "denied: ", 8) == 0);
    assert(strstr(result.message, "windlass_memory_serve") != NULL);
}

static void refuse(void *context, const windlass_http_request *request, windlass_http_response *response) {
    (void)context, (void)request;
    static const windlass_header later = {"Retry-After", "7"};
    *response = (windlass_http_response){429, &later, 1, "too many\n", 9};
}

static void a_status_becomes_an_error_where_the_guest_wants_one(void) {
    windlass_script *script = windlass_script_new("alpha");
    windlass_script_serve(script, refuse, NULL);
    body = asks_once;
    windlass_result result = windlass_script_reconcile(script, A);
    assert(result.outcome == WINDLASS_RESULT_RETRY);
    assert(strcmp(result.message, "throttled: the server answers 429: too many") == 0);

    windlass_http_response answer;
    refuse(NULL, NULL, &answer);
    windlass_error *error = windlass_http_success(&answer);
    assert(error->http_status == 429 && error->retry_after_ms == 7000);
    const char *const others[] = {"Fri, 31 Dec 1999 23:59:59 GMT", "-1", "", "7.5", "99999999999"};
    for (size_t at = 0; at < sizeof others / sizeof *others; at++) {
        answer.headers = &(windlass_header){"retry-after", others[at]};
        assert(windlass_http_success(&answer)->retry_after_ms == -1);
    }
    assert(windlass_http_success(&(windlass_http_response){.status = 204, .body = ""}) == NULL);
    error = windlass_http_success(&(windlass_http_response){.status = 404, .body = ""});
    assert(error->code == WINDLASS_NOT_FOUND && strcmp(error->message, "the server answers 404") == 0);
    assert(windlass_http_success(&(windlass_http_response){.status = 302, .body = ""})->code == WINDLASS_OTHER);
}

static void an_error_has_the_beginning_of_a_long_answer(void) {
    for (size_t shift = 0; shift < 2; shift++) {
        char *text = windlass_alloc(602);
        text[0] = 'x';
        for (size_t at = shift; at + 1 < 600; at += 2) {
            memcpy(text + at, "\u00e4", 2);
        }
        windlass_http_response answer = {.status = 500, .body = text, .body_length = strlen(text)};
        windlass_error *error = windlass_http_success(&answer);
        assert(error->code == WINDLASS_UNAVAILABLE && strlen(error->message) < 250);
        assert(strstr(error->message, "\uFFFD") == NULL);
    }
}

int main(void) {
    a_test_answers_what_a_guest_asks();
    without_answers_every_call_is_denied();
    a_status_becomes_an_error_where_the_guest_wants_one();
    an_error_has_the_beginning_of_a_long_answer();
    puts("4 tests of calls of other servers in C passed");
    return 0;
}
