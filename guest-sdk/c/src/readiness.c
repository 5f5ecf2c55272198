/* Why an object is not ready. */

#include <string.h>

#include "backend.h"
#include "windlass.h"

static long long number(const json *object, const char *pointer) {
    return json_integer(json_at(object, pointer), 0);
}

static bool has_status(const json *condition, const char *status) {
    return sdk_same_text(json_text(json_get(condition, "status")), status);
}

/* Reason and message of a condition. */
static const char *said(const json *condition) {
    const char *reason = json_text(json_get(condition, "reason")), *message = json_text(json_get(condition, "message"));
    bool reasoned = reason != NULL && reason[0] != '\0', told = message != NULL && message[0] != '\0';
    if (!reasoned && !told) {
        return windlass_format("its condition %s is %s", json_text(json_get(condition, "type")),
                               json_text(json_get(condition, "status")));
    }
    if (!reasoned || !told) {
        return reasoned ? reason : message;
    }
    return windlass_format("%s: %s", reason, message);
}

static const char *unseen(const json *object) {
    return windlass_format("its controller has not seen its generation %lld", number(object, "/metadata/generation"));
}

/* Whether something is of an older generation than the object; what names none is not. */
static bool is_older(const json *object, const json *observed) {
    return observed != NULL && json_integer(observed, 0) < number(object, "/metadata/generation");
}

static bool is_unseen(const json *object) {
    return number(object, "/status/observedGeneration") < number(object, "/metadata/generation");
}

static const char *deployment(const json *object) {
    long long wanted = json_integer(json_at(object, "/spec/replicas"), 1);
    long long updated = number(object, "/status/updatedReplicas"), available = number(object, "/status/availableReplicas");
    long long old = number(object, "/status/replicas") - updated;
    const json *progressing = windlass_get_condition(object, "Progressing");
    if (is_unseen(object)) {
        return unseen(object);
    }
    if (has_status(progressing, "False") &&
        sdk_same_text(json_text(json_get(progressing, "reason")), "ProgressDeadlineExceeded")) {
        return said(progressing);
    }
    if (updated < wanted) {
        return windlass_format("%lld of %lld replicas are updated", updated, wanted);
    }
    if (old > 0) {
        return windlass_format("%lld old replicas are left", old);
    }
    return available < wanted ? windlass_format("%lld of %lld replicas are available", available, wanted) : NULL;
}

static const char *stateful_set(const json *object) {
    long long wanted = json_integer(json_at(object, "/spec/replicas"), 1);
    long long newer = wanted - number(object, "/spec/updateStrategy/rollingUpdate/partition");
    long long updated = number(object, "/status/updatedReplicas"), ready = number(object, "/status/readyReplicas");
    bool on_delete = sdk_same_text(json_text_at(object, "/spec/updateStrategy/type"), "OnDelete");
    if (is_unseen(object)) {
        return unseen(object);
    }
    if (updated < newer && !on_delete) {
        return windlass_format("%lld of %lld replicas are updated", updated, newer);
    }
    return ready < wanted ? windlass_format("%lld of %lld replicas are ready", ready, wanted) : NULL;
}

static const char *service(const json *object) {
    bool balanced = sdk_same_text(json_text_at(object, "/spec/type"), "LoadBalancer");
    bool none = json_count(json_at(object, "/status/loadBalancer/ingress")) == 0;
    return balanced && none ? "its load balancer has no address" : NULL;
}

static const char *job(const json *object) {
    const json *failed = windlass_get_condition(object, "Failed");
    if (has_status(failed, "True")) {
        return said(failed);
    }
    return has_status(windlass_get_condition(object, "Complete"), "True") ? NULL : "it is not complete";
}

static const char *claim(const json *object) {
    return sdk_same_text(json_text_at(object, "/status/phase"), "Bound") ? NULL : "it is not bound";
}

static const char *other(const json *object) {
    const json *found = windlass_get_condition(object, "Ready");
    if (found == NULL) {
        found = windlass_get_condition(object, "Available");
    }
    if (found == NULL) {
        return NULL;
    }
    if (is_older(object, json_get(found, "observedGeneration")) ||
        is_older(object, json_at(object, "/status/observedGeneration"))) {
        return unseen(object);
    }
    return has_status(found, "True") ? NULL : said(found);
}

const char *windlass_readiness(const json *object) {
    static const struct {
        const char *group, *kind;
        const char *(*why)(const json *object);
    } known[] = {
        {"apps", "Deployment", deployment},
        {"apps", "StatefulSet", stateful_set},
        {"", "Service", service},
        {"batch", "Job", job},
        {"", "PersistentVolumeClaim", claim},
    };
    if (windlass_is_deleting(object)) {
        return "it is being deleted";
    }
    windlass_kind kind = windlass_kind_of(object);
    for (size_t at = 0; at < sizeof known / sizeof *known; at++) {
        if (strcmp(kind.group, known[at].group) == 0 && strcmp(kind.kind, known[at].kind) == 0) {
            return known[at].why(object);
        }
    }
    return other(object);
}
