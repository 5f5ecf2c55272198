/* Conditions in the status of an object. */

#include <string.h>

#include "backend.h"
#include "windlass.h"

json *windlass_get_condition(const json *object, const char *type) {
    json_each(condition, json_at(object, "/status/conditions")) {
        const char *found = json_text(json_get(condition, "type"));
        if (found != NULL && strcmp(found, type) == 0) {
            return condition;
        }
    }
    return NULL;
}

/* The time in whole seconds, as conditions have it. */
static const char *moment(void) {
    return windlass_format("%.19sZ", windlass_now());
}

bool windlass_set_condition(json *object, windlass_condition condition) {
    json *before = windlass_get_condition(object, condition.type);
    json *after = before == NULL ? json_object() : json_copy(before);
    bool stays = before != NULL && sdk_same_text(json_text(json_get(before, "status")), condition.status) &&
                 json_text(json_get(before, "lastTransitionTime")) != NULL;
    long long generation = condition.observed_generation;
    if (generation == 0) {
        generation = json_integer(json_at(object, "/metadata/generation"), 0);
    }
    json_set(after, "type", json_string(condition.type));
    json_set(after, "status", json_string(condition.status));
    json_set(after, "reason", json_string(condition.reason));
    json_set(after, "message", json_string(condition.message == NULL ? "" : condition.message));
    if (generation != 0) {
        json_set(after, "observedGeneration", json_number(generation));
    }
    if (!stays) {
        json_set(after, "lastTransitionTime", json_string(moment()));
    }
    if (before != NULL && json_same(before, after)) {
        return false;
    }
    json *conditions = json_array();
    json_each(each, json_at(object, "/status/conditions")) {
        json_append(conditions, each == before ? after : each);
    }
    if (before == NULL) {
        json_append(conditions, after);
    }
    json_set_at(object, "/status/conditions", conditions);
    return true;
}
