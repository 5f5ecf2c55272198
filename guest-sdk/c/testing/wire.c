/* The contract's types as JSON. Entry points: wire_call and wire_reply. */

#include "wire.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- To the host ---- */

json *wire_case(const char *name, json *value) {
    return json_set(json_object(), name, value);
}

void wire_text(json *into, const char *name, const char *text) {
    json_set(into, name, json_string(text));
}

static void put_flag(json *into, const char *name, bool flag) {
    json_set(into, name, json_bool(flag));
}

json *wire_kind(windlass_kind kind) {
    json *made = json_object();
    wire_text(made, "group", kind.group);
    wire_text(made, "version", kind.version);
    wire_text(made, "kind", kind.kind);
    return made;
}

json *wire_key(windlass_key key) {
    json *made = json_object();
    wire_text(made, "namespace", key.ns);
    wire_text(made, "name", key.name);
    return made;
}

static void put_read(json *options, bool live, bool metadata_only) {
    wire_text(options, "mode", live ? "Live" : "Cached");
    wire_text(options, "projection", metadata_only ? "Metadata" : "Full");
}

static json *get_options(const windlass_get_options *from) {
    json *options = json_object();
    put_read(options, from->live, from->metadata_only);
    wire_text(options, "subresource", from->subresource);
    return options;
}

static json *selection(const windlass_list_options *from) {
    json *made = json_object();
    wire_text(made, "namespace", from->ns);
    wire_text(made, "label_selector", from->labels);
    wire_text(made, "field_selector", from->fields);
    return made;
}

static json *list_options(const windlass_list_options *from) {
    json *options = selection(from);
    if (from->index != NULL) {
        json *index = json_append(json_array(), json_string(from->index));
        json_set(options, "index", json_append(index, json_string(from->value == NULL ? "" : from->value)));
    }
    json_set(options, "limit", json_number(from->limit));
    wire_text(options, "continue_token", from->continue_token);
    put_read(options, from->live, from->metadata_only);
    return options;
}

static json *write_options(const windlass_write_options *from, bool apply) {
    json *options = json_object();
    wire_text(options, "subresource", from->subresource);
    if (apply) {
        put_flag(options, "force", from->force);
    }
    put_flag(options, "dry_run", from->dry_run);
    return options;
}

static json *delete_options(const windlass_delete_options *from) {
    static const char *const propagations[] = {NULL, "Background", "Foreground", "Orphan"};
    json *options = json_object();
    wire_text(options, "uid", from->uid);
    wire_text(options, "resource_version", from->resource_version);
    wire_text(options, "propagation", propagations[from->propagation]);
    if (from->grace_period != NULL) {
        json_set(options, "grace_period_seconds", json_number(*from->grace_period));
    }
    put_flag(options, "dry_run", from->dry_run);
    return options;
}

/* The function that an operation calls. */
static const char *function_of(const windlass_operation *operation) {
    static const char *const names[] = {"Get", "List", "Create", "Update", "Patch", "Apply", "Delete", "DeleteCollection"};
    return names[operation->verb];
}

/* Adds the arguments of an operation, in the contract's order. */
static void put_arguments(json *into, const windlass_operation *from) {
    static const char *const patches[] = {"Merge", "JsonPatch", "StrategicMerge"};
    bool whole = from->verb == WINDLASS_OP_CREATE || from->verb == WINDLASS_OP_UPDATE || from->verb == WINDLASS_OP_APPLY;
    json_set(into, "kind", wire_kind(whole ? windlass_kind_of(from->object) : from->kind));
    if (whole) {
        wire_text(into, "object", json_print(from->object));
    } else if (from->verb != WINDLASS_OP_LIST && from->verb != WINDLASS_OP_DELETE_COLLECTION) {
        json_set(into, "key", wire_key(from->key));
    }
    switch (from->verb) {
    case WINDLASS_OP_GET:
        json_set(into, "options", get_options(&from->get));
        break;
    case WINDLASS_OP_LIST:
        json_set(into, "options", list_options(&from->list));
        break;
    case WINDLASS_OP_PATCH:
        wire_text(into, "patch_type", patches[from->patch_type]);
        wire_text(into, "patch", json_print(from->object));
        json_set(into, "options", write_options(&from->write, false));
        break;
    case WINDLASS_OP_CREATE:
    case WINDLASS_OP_UPDATE:
    case WINDLASS_OP_APPLY:
        json_set(into, "options", write_options(&from->write, from->verb == WINDLASS_OP_APPLY));
        break;
    case WINDLASS_OP_DELETE_COLLECTION:
        json_set(into, "selection", selection(&from->list));
        json_set(into, "options", delete_options(&from->deletion));
        break;
    case WINDLASS_OP_DELETE:
        json_set(into, "options", delete_options(&from->deletion));
        break;
    }
}

json *wire_call(long long handle, const windlass_operation *operation) {
    json *arguments = json_set(json_object(), "cluster", json_number(handle));
    put_arguments(arguments, operation);
    return wire_case(function_of(operation), arguments);
}

json *wire_operation(const windlass_operation *operation) {
    if (operation->verb == WINDLASS_OP_DELETE_COLLECTION) {
        fputs("windlass: delete-collection is nothing for a batch\n", stderr);
        abort();
    }
    json *arguments = json_object(), *values = json_array();
    put_arguments(arguments, operation);
    json_each(argument, arguments) {
        json_append(values, json_copy(argument));
    }
    return wire_case(function_of(operation), values);
}

/* Bytes are numbers. */
static json *numbers_of(const unsigned char *bytes, size_t count) {
    json *numbers = json_array();
    for (size_t at = 0; at < count; at++) {
        json_append(numbers, json_number(bytes[at]));
    }
    return numbers;
}

json *wire_http(const windlass_http_request *request) {
    json *asked = json_object(), *headers = json_array();
    for (size_t at = 0; at < request->header_count; at++) {
        json *pair = json_append(json_array(), json_string(request->headers[at].name));
        json_append(headers, json_append(pair, json_string(request->headers[at].value)));
    }
    wire_text(asked, "method", request->method);
    wire_text(asked, "url", request->url);
    json_set(asked, "headers", headers);
    json_set(asked, "body", numbers_of(request->body, request->body_length));
    json_set(asked, "timeout_ms", request->timeout_ms == 0 ? json_null() : json_number(request->timeout_ms));
    json_set(asked, "options", json_array());
    return wire_case("Http", json_set(json_object(), "request", asked));
}

/* ---- From the host ---- */

/* Whether a name in CamelCase is one of the contract: NotFound is not-found. */
static bool is_case(const char *camel, const char *name) {
    for (; *camel != '\0'; camel++, name++) {
        if (isupper((unsigned char)*camel) && *name == '-') {
            name++;
        }
        if (tolower((unsigned char)*camel) != *name) {
            return false;
        }
    }
    return *name == '\0';
}

windlass_error *wire_error(const json *result) {
    const json *from = json_get(result, "Err");
    if (from == NULL) {
        return NULL;
    }
    const char *code = json_text_at(from, "/code"), *details = json_text_at(from, "/details");
    windlass_error *error = windlass_alloc(sizeof *error);
    error->code = WINDLASS_OTHER;
    for (windlass_code each = WINDLASS_NOT_FOUND; code != NULL && each < WINDLASS_OTHER; each++) {
        if (is_case(code, windlass_code_name(each))) {
            error->code = each;
        }
    }
    error->http_status = (int)json_integer(json_get(from, "http_status"), 0);
    error->reason = json_text_at(from, "/reason");
    error->message = json_text_at(from, "/message");
    error->details = details == NULL ? NULL : json_parse(details, strlen(details), NULL);
    error->retry_after_ms = json_integer(json_get(from, "retry_after_ms"), -1);
    return error;
}

/* Stores an object, or a page of them, in the reply, or an error if one cannot be read. */
static windlass_reply value_of(const json *value) {
    windlass_reply reply = {0};
    if (json_text(value) != NULL) {
        reply.object = json_of_host(value->text, value->length, &reply.error);
        return reply;
    }
    const json *items = json_get(value, "items");
    if (items == NULL) {
        return reply;
    }
    reply.page = (windlass_page){json_array(), json_text_at(value, "/continue_token"), json_text_at(value, "/resource_version")};
    json_each(item, items) {
        json *object = json_of_host(item->text, item->length, &reply.error);
        if (object == NULL) {
            return reply;
        }
        json_append(reply.page.items, object);
    }
    return reply;
}

windlass_reply wire_reply(const json *answer) {
    windlass_error *error = wire_error(answer);
    return error != NULL ? (windlass_reply){.error = error} : value_of(json_get(answer, "Ok"));
}

windlass_reply wire_batch_reply(const json *answer) {
    windlass_error *error = wire_error(answer);
    const json *reply = json_get(answer, "Ok"), *object = json_get(reply, "Object");
    if (error != NULL) {
        return (windlass_reply){.error = error};
    }
    return value_of(object != NULL ? object : json_get(reply, "Page"));
}

/* An object of pairs. */
static json *pairs_of(const json *from) {
    json *pairs = json_object();
    json_each(pair, from) {
        json_set(pairs, json_text_at(pair, "/0"), json_string(json_text_at(pair, "/1")));
    }
    return pairs;
}

windlass_error *wire_infos(const json *answer, windlass_cluster_info **infos, size_t *count) {
    windlass_error *error = wire_error(answer);
    if (error != NULL) {
        return error;
    }
    const json *from = json_get(answer, "Ok");
    *infos = windlass_alloc((json_count(from) + 1) * sizeof **infos);
    *count = 0;
    json_each(each, from) {
        (*infos)[(*count)++] = (windlass_cluster_info){json_text_at(each, "/name"), pairs_of(json_get(each, "labels")),
                                                       pairs_of(json_get(each, "properties")),
                                                       json_is_true(json_get(each, "ready"))};
    }
    return NULL;
}

windlass_error *wire_http_response(const json *answer, windlass_http_response *response) {
    windlass_error *error = wire_error(answer);
    if (error != NULL) {
        return error;
    }
    const json *from = json_get(answer, "Ok"), *pairs = json_get(from, "headers"), *numbers = json_get(from, "body");
    windlass_header *headers = windlass_alloc(json_count(pairs) * sizeof *headers);
    char *body = windlass_alloc(json_count(numbers) + 1);
    *response = (windlass_http_response){.status = (int)json_integer(json_get(from, "status"), 0), .headers = headers, .body = body};
    json_each(pair, pairs) {
        headers[response->header_count++] = (windlass_header){json_text_at(pair, "/0"), json_text_at(pair, "/1")};
    }
    json_each(number, numbers) {
        body[response->body_length++] = (char)json_integer(number, 0);
    }
    return NULL;
}
