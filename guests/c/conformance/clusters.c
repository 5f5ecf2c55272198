/* Cases about other clusters. */

#include "words.h"

static const char *pairs(const json *of) {
    const char *all = NULL;
    json_each(pair, of) {
        all = joined(all, windlass_format("%s:%s", pair->name, pair->text));
    }
    return all;
}

/* All granted clusters, some by label, and an invalid selector. */
windlass_result clusters(const scene *scene) {
    (void)scene;
    windlass_cluster_info *known;
    size_t count;
    WINDLASS_TRY(windlass_clusters(NULL, &known, &count));
    for (size_t at = 0; at < count; at++) {
        windlass_info("cluster", "name", known[at].name, "labels", pairs(known[at].labels), "properties",
                      pairs(known[at].properties), "ready", yes(known[at].ready), NULL);
    }
    const char *names = NULL;
    WINDLASS_TRY(windlass_clusters("tier=second", &known, &count));
    for (size_t at = 0; at < count; at++) {
        names = joined(names, known[at].name);
    }
    windlass_info("by label", "names", names, NULL);
    windlass_error *error = windlass_clusters("tier in (", &known, &count);
    if (error != NULL) {
        refused("no selector", error);
    }
    return windlass_done();
}

/* Reads and writes in a granted cluster; clusters that are not granted or not there. */
windlass_result opening(const scene *scene) {
    windlass_cluster *beta, *none;
    json *apple, *sent;
    WINDLASS_TRY(windlass_open("beta", &beta));
    WINDLASS_TRY(windlass_get(beta, CONFIG_MAP, at(scene, "apple"), NULL, &apple));
    windlass_info("opened", "name", windlass_name(beta), "color", color(apple), NULL);
    WINDLASS_TRY(windlass_create(beta, config_map_with(scene, "sent", "from", windlass_name(scene->cluster)), NULL, &sent));
    windlass_info("sent", "from", shown(sent, "/data/from"), NULL);
    const char *const names[] = {"gamma", "bye", ""};
    for (size_t at = 0; at < 3; at++) {
        windlass_error *error = windlass_open(names[at], &none);
        if (error != NULL) {
            refused("not opened", error);
        }
    }
    return windlass_done();
}

/* A batch over several clusters. */
windlass_result across(const scene *scene) {
    const windlass_operation get = {.verb = WINDLASS_OP_GET, .kind = CONFIG_MAP, .key = at(scene, "apple")};
    const windlass_operation operations[] = {
        get,
        get,
        get,
        {.verb = WINDLASS_OP_CREATE, .object = config_map_with(scene, "pear", "color", "green")},
        {.verb = WINDLASS_OP_DELETE, .kind = CONFIG_MAP, .key = at(scene, "apple")},
    };
    const char *const names[] = {"alpha", "beta", "gamma", "beta", "bye"};
    windlass_reply *replies = windlass_fleet_batch(names, operations, 5);
    for (size_t at = 0; at < 5; at++) {
        answered(&replies[at]);
    }
    return windlass_done();
}
