/* Calls of servers that are no API servers. Entry point: windlass_http_send. */

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend.h"
#include "windlass.h"

/* Most bytes of an answer that an error shows. */
#define SHOWN ((size_t)200)

static const char *find(const windlass_header *headers, size_t count, const char *name) {
    for (size_t at = 0; at < count; at++) {
        if (strcasecmp(headers[at].name, name) == 0) {
            return headers[at].value;
        }
    }
    return NULL;
}

/* The same request with its JSON as a body. */
static windlass_http_request with_body(windlass_http_request request) {
    static const char type[] = "content-type";
    request.body = json_print(request.json_body);
    request.body_length = strlen(request.body);
    request.json_body = NULL;
    if (find(request.headers, request.header_count, type) != NULL) {
        return request;
    }
    windlass_header *headers = windlass_alloc((request.header_count + 1) * sizeof *headers);
    if (request.header_count != 0) {
        memcpy(headers, request.headers, request.header_count * sizeof *headers);
    }
    headers[request.header_count++] = (windlass_header){type, "application/json"};
    request.headers = headers;
    return request;
}

windlass_error *windlass_http_send(const windlass_http_request *request, windlass_http_response *response) {
    windlass_http_request asked = request->json_body == NULL ? *request : with_body(*request);
    if (asked.method == NULL) {
        asked.method = "GET";
    }
    if (asked.body == NULL) {
        asked.body = "";
    }
    return backend_http(&asked, response);
}

windlass_error *windlass_http_get(const char *url, windlass_http_response *response) {
    return windlass_http_send(&(windlass_http_request){.url = url}, response);
}

const char *windlass_http_header(const windlass_http_response *response, const char *name) {
    return find(response->headers, response->header_count, name);
}

/* The code that an API server's answer of this status has. */
static windlass_code code_of(int status) {
    switch (status) {
    case 400:
    case 422:
        return WINDLASS_INVALID;
    case 401:
        return WINDLASS_UNAUTHORIZED;
    case 403:
        return WINDLASS_FORBIDDEN;
    case 404:
        return WINDLASS_NOT_FOUND;
    case 409:
        return WINDLASS_CONFLICT;
    case 410:
        return WINDLASS_EXPIRED;
    case 429:
        return WINDLASS_THROTTLED;
    default:
        return status >= 500 ? WINDLASS_UNAVAILABLE : WINDLASS_OTHER;
    }
}

/* Seconds as milliseconds; -1 for anything else, such as a date. */
static int64_t delay_of(const char *seconds) {
    char *end;
    if (seconds == NULL || seconds[0] < '0' || seconds[0] > '9') {
        return -1;
    }
    unsigned long long count = strtoull(seconds, &end, 10);
    return *end != '\0' || count > UINT32_MAX ? -1 : (int64_t)count * 1000;
}

/* The beginning of a text of the server, without the part of a letter that is cut. */
static const char *shown(const windlass_http_response *response) {
    size_t length = response->body_length < SHOWN ? response->body_length : SHOWN;
    while (length > 0 && length < response->body_length && (response->body[length] & 0xC0) == 0x80) {
        length--;
    }
    while (length > 0 && strchr(" \t\r\n", response->body[length - 1]) != NULL) {
        length--;
    }
    return well_formed(windlass_format("%.*s", (int)length, response->body));
}

windlass_error *windlass_http_success(const windlass_http_response *response) {
    if (response->status >= 200 && response->status < 300) {
        return NULL;
    }
    const char *text = shown(response);
    const char *message = windlass_format("the server answers %d%s%s", response->status, text[0] == '\0' ? "" : ": ", text);
    windlass_error *error = sdk_failure(code_of(response->status), "", message);
    error->http_status = response->status;
    error->retry_after_ms = delay_of(windlass_http_header(response, "retry-after"));
    return error;
}

windlass_error *windlass_http_json(const windlass_http_response *response, json **value) {
    const char *why = NULL;
    json *read = json_parse(response->body, response->body_length, &why);
    if (read == NULL) {
        return sdk_failure(WINDLASS_INVALID, "Invalid", windlass_format("the answer cannot be read: %s", why));
    }
    *value = read;
    return NULL;
}
