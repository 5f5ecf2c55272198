/* The conformance reconciler in C: guests/conformance/README.md says what each
 * case does. */

#include <string.h>

#include "words.h"

/* The label of a ConfigMap that asks for a case. Its value is the case's name.
 */
static const char CASE[] = "conformance.windlass.dev/case";
/* The label of a Secret that asks for requests. */
static const char ASK[] = "conformance.windlass.dev/ask";
/* The annotation of such a Secret: the cluster that is asked for. */
static const char FOR[] = "conformance.windlass.dev/for";

static const struct {
    const char *name;
    windlass_result (*run)(const scene *scene);
} CASES[] = {
    {"read", reading},   {"list", listing},   {"many", many},           {"create", creating}, {"update", updating},
    {"patch", patching}, {"apply", applying}, {"status", status},       {"delete", deleting}, {"collection", collection},
    {"ensure", ensuring},
    {"batch", batch},    {"text", text},      {"large", large},         {"events", events},   {"log", lines},
    {"config", config},  {"clock", times},    {"random", draws},     {"clusters", clusters},   {"open", opening},    {"across", across},
    {"http", calling},
    {"codes", codes},    {"limits", limits},  {"cancelled", cancelled},
};

/* The options of a part of the description, if the config asks for one that no
 * host knows. */
static const json *options(const char *part) {
    const char *later = json_text(json_get(windlass_config(), "later"));
    return later == NULL || strcmp(later, part) != 0 ? NULL : json_set(json_object(), "later", json_string("yes"));
}

static windlass_result describe(windlass_description *description) {
    const char *refusal = json_text(json_get(windlass_config(), "refuse"));
    if (refusal != NULL) {
        return windlass_terminal("%s", refusal);
    }
    description->title = "walks through the contract";
    windlass_watch watches[] = {
        {.kind = CONFIG_MAP, .clusters = WINDLASS_PROVIDER, .changes = WINDLASS_LABELS | WINDLASS_ANNOTATIONS},
        {.kind = DEPLOYMENT, .enqueue = WINDLASS_CONTROLLER_OWNER, .changes = WINDLASS_GENERATION | WINDLASS_STATUS},
        {.kind = {"", "v1", "Secret"}, .enqueue = WINDLASS_MAPPED, .labels = ASK, .metadata_only = true},
        {.kind = {"", "v1", "ServiceAccount"}, .enqueue = WINDLASS_ANY_OWNER},
        {.kind = {"", "v1", "PersistentVolumeClaim"}, .enqueue = WINDLASS_SAME_NAME, .fields = "metadata.namespace!=kube-system"},
        {.kind = {"", "v1", "Service"}, .enqueue = WINDLASS_BY_INDEX, .index = "service", .options = options("watch")},
    };
    for (size_t at = 0; at < sizeof watches / sizeof *watches; at++) {
        windlass_add_watch(description, watches[at]);
    }
    windlass_add_index(description, (windlass_index){.kind = CONFIG_MAP, .name = "color", .path = "data.color"});
    windlass_add_index(description, (windlass_index){.kind = CONFIG_MAP,
                                                     .name = "service",
                                                     .path = "data.service",
                                                     .namespace_path = "data['service.namespace']",
                                                     .options = options("index")});
    description->options = options("description");
    return windlass_done();
}

static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    json *primary;
    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, request->key, NULL, &primary));
    if (primary == NULL) {
        windlass_info("gone", "key", windlass_key_text(request->key), NULL);
        return windlass_done();
    }
    const char *name = windlass_label(primary, CASE);
    if (name == NULL) {
        return windlass_done(); /* objects of the cases */
    }
    scene scene = {cluster, request->key, primary};
    for (size_t at = 0; at < sizeof CASES / sizeof *CASES; at++) {
        if (strcmp(CASES[at].name, name) == 0) {
            return CASES[at].run(&scene);
        }
    }
    return outcome(name, &scene);
}

static windlass_result map(windlass_cluster *cluster, windlass_kind kind, const json *objects, windlass_requests *requests) {
    const json *newest = objects->last;
    const char *asked = windlass_annotation(newest, FOR);
    if (asked == NULL) {
        return windlass_retry("no cluster is asked for");
    }
    windlass_key key = windlass_key_of(newest), apple = windlass_sibling(key, "apple");
    json *found;
    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, apple, NULL, &found));
    windlass_cluster_info *known;
    size_t count;
    WINDLASS_TRY(windlass_clusters(NULL, &known, &count));
    const char *names = NULL;
    for (size_t at = 0; at < count; at++) {
        names = joined(names, known[at].name);
    }
    windlass_info("mapped", "kind", windlass_format("%s/%s", kind.version, kind.kind), "objects",
                  number((long long)json_count(objects)), "color", color(found), "clusters", names, NULL);
    windlass_error *error = windlass_get(cluster, CONFIG_MAP, apple, &(windlass_get_options){.live = true}, &found);
    if (error != NULL) {
        refused("live", error);
    }
    windlass_add_request(requests, (windlass_request){asked, windlass_sibling(key, "asked")});
    return windlass_done();
}

WINDLASS_MAPPED_RECONCILER(describe, reconcile, map)
