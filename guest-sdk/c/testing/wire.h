/*
 * The contract's types as the lines of the program windlass have them: see guest-sdk/protocol.md of the repository. Entry points:
 * wire_call and wire_reply.
 */
#ifndef WIRE_H
#define WIRE_H

#include "backend.h"

/* An object with one member: {"Get": {…}}. */
json *wire_case(const char *name, json *value);
/* Sets a member to a text, or to null. */
void wire_text(json *into, const char *name, const char *text);
json *wire_kind(windlass_kind kind);
json *wire_key(windlass_key key);

/* The call of an operation in the cluster of a handle. */
json *wire_call(long long handle, const windlass_operation *operation);
/* What the host has answered to it. */
windlass_reply wire_reply(const json *answer);
/* An operation of a batch. */
json *wire_operation(const windlass_operation *operation);
/* What the host has answered to an operation of a batch. */
windlass_reply wire_batch_reply(const json *answer);

/* A call of a server that is no API server. */
json *wire_http(const windlass_http_request *request);
/* What the host has answered to it. */
windlass_error *wire_http_response(const json *answer, windlass_http_response *response);

/* The error of a result; NULL for its value. */
windlass_error *wire_error(const json *result);
/* What the host has answered to fleet.clusters. */
windlass_error *wire_infos(const json *answer, windlass_cluster_info **infos, size_t *count);

#endif
