/* How writes change the fields of an object in memory. Entry points: memory_merged, memory_applied and memory_combined. */

#include "memory.h"

static bool is_object(const json *value) {
    return value != NULL && value->type == JSON_OBJECT;
}

json *memory_merged(const json *target, const json *patch) {
    if (!is_object(patch)) {
        return json_copy(patch);
    }
    json *next = is_object(target) ? json_copy(target) : json_object();
    json_each(change, patch) {
        if (change->type == JSON_NULL) {
            json_remove(next, change->name);
        } else {
            json_set(next, change->name, memory_merged(json_get(next, change->name), change));
        }
    }
    return next;
}

json *memory_applied(const json *stored, const json *before, const json *now) {
    if (!is_object(stored) || !is_object(now)) {
        return json_copy(now);
    }
    json *next = json_copy(stored);
    if (is_object(before)) {
        json_each(old, before) {
            if (json_get(now, old->name) != NULL) {
                continue;
            }
            /* Only what was applied goes; what other writers set in the same object stays. */
            const json *there = json_get(next, old->name);
            json *rest = is_object(there) && is_object(old) ? memory_applied(there, old, json_object()) : NULL;
            if (json_count(rest) > 0) {
                json_set(next, old->name, rest);
            } else {
                json_remove(next, old->name);
            }
        }
    }
    json_each(value, now) {
        json_set(next, value->name, memory_applied(json_get(next, value->name), json_get(before, value->name), value));
    }
    return next;
}

json *memory_combined(const json *stored, const json *given, bool status) {
    json *next = json_copy(status ? stored : given);
    const json *kept = json_get(status ? given : stored, "status");
    if (kept == NULL || kept->type == JSON_NULL) {
        json_remove(next, "status");
        return next;
    }
    return json_set(next, "status", json_copy(kept));
}

bool memory_same_desired(const json *one, const json *other) {
    json *parts[] = {json_copy(one), json_copy(other)};
    for (size_t at = 0; at < 2; at++) {
        json_remove(parts[at], "metadata");
        json_remove(parts[at], "status");
    }
    return json_same(parts[0], parts[1]);
}
