/* Keeps the hub's ConfigMaps that are labelled in all other clusters, or in those that they select. */

#include <string.h>
#include <windlass.h>

static const windlass_kind CONFIG_MAP = {"", "v1", "ConfigMap"};

/* The label of originals, in the hub. */
#define SPREAD "hub.windlass.dev/spread"
/* The annotation of originals with the labels of their clusters, as `kubectl -l` has them. Without it they are for all. */
#define CLUSTERS "hub.windlass.dev/clusters"
/* The label of copies. Objects without it are never changed. */
#define COPY "hub.windlass.dev/copy"

static windlass_result describe(windlass_description *description) {
    description->title = "keeps ConfigMaps of the hub in all clusters";
    windlass_add_watch(description, (windlass_watch){.kind = CONFIG_MAP, .labels = COPY, .clusters = WINDLASS_PROVIDER});
    windlass_add_watch(description, (windlass_watch){
                                        .kind = CONFIG_MAP,
                                        .labels = SPREAD,
                                        .clusters = WINDLASS_LOCAL,
                                        .enqueue = WINDLASS_MAPPED,
                                    });
    windlass_add_watch(description, (windlass_watch){
                                        .kind = WINDLASS_FLEET_CLUSTER,
                                        .changes = WINDLASS_LABELS,
                                        .enqueue = WINDLASS_MAPPED,
                                    });
    return windlass_done();
}

static bool has(const json *object, const char *label) {
    return object != NULL && json_get(json_at(object, "/metadata/labels"), label) != NULL;
}

static void copy(json *object, void *original) {
    json_set_at(object, "/metadata/labels/hub.windlass.dev~1copy", json_string("yes"));
    json_set(object, "data", json_at(original, "/data"));
}

static windlass_error *is_for(const json *original, const char *cluster, bool *wanted) {
    windlass_cluster_info *clusters;
    size_t count;
    *wanted = false;
    if (!has(original, SPREAD)) {
        return NULL;
    }
    windlass_error *error = windlass_clusters(windlass_annotation(original, CLUSTERS), &clusters, &count);
    for (size_t i = 0; error == NULL && i < count; i++) {
        *wanted |= strcmp(clusters[i].name, cluster) == 0;
    }
    return error;
}

static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    windlass_key key = request->key;
    windlass_cluster *hub;
    json *original, *present;
    bool wanted;
    WINDLASS_TRY(windlass_open("", &hub));
    WINDLASS_TRY(windlass_get(hub, CONFIG_MAP, key, NULL, &original));
    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, key, NULL, &present));
    WINDLASS_TRY(is_for(original, windlass_name(cluster), &wanted));
    if (!wanted) {
        if (has(present, COPY)) {
            WINDLASS_TRY(windlass_delete(cluster, CONFIG_MAP, key, NULL, NULL));
        }
        return windlass_done();
    }
    if (present != NULL && !has(present, COPY)) {
        return windlass_retry("%s/%s is there and no copy", key.ns, key.name);
    }
    WINDLASS_TRY(windlass_create_or_update(cluster, CONFIG_MAP, key, copy, original, NULL));
    return windlass_done();
}

/* The objects are the hub's: an original asks for a copy in each cluster, a cluster for a copy of each original. */
static windlass_result map(windlass_cluster *hub, windlass_kind kind, const json *objects, windlass_requests *requests) {
    const json *object = NULL;
    json_each(changed, objects) { object = changed; }
    if (strcmp(kind.group, WINDLASS_FLEET_CLUSTER.group) == 0) {
        json *originals;
        WINDLASS_TRY(windlass_list_all(hub, CONFIG_MAP, &(windlass_list_options){.labels = SPREAD}, &originals));
        json_each(original, originals) {
            windlass_request request = {json_text_at(object, "/spec/name"), windlass_key_of(original)};
            windlass_add_request(requests, request);
        }
        return windlass_done();
    }
    windlass_cluster_info *clusters;
    size_t count;
    WINDLASS_TRY(windlass_clusters(NULL, &clusters, &count));
    for (size_t i = 0; i < count; i++) {
        if (clusters[i].name[0] != '\0') {
            windlass_add_request(requests, (windlass_request){clusters[i].name, windlass_key_of(object)});
        }
    }
    return windlass_done();
}

WINDLASS_MAPPED_RECONCILER(describe, reconcile, map)
