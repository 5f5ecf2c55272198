/* Cases that read. */

#include "words.h"

windlass_result reading(const scene *scene) {
    windlass_cluster *cluster = scene->cluster;
    windlass_key apple = at(scene, "apple"), nothing = at(scene, "nothing");
    const windlass_get_options live = {.live = true};
    windlass_info("cluster", "name", windlass_name(cluster), NULL);

    json *cached, *fresh;
    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, apple, NULL, &cached));
    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, apple, &live, &fresh));
    windlass_info("color", "cached", color(cached), "live", color(fresh), NULL);

    for (int from = 0; from < 2; from++) {
        json *metadata;
        const windlass_get_options options = {.live = from == 1, .metadata_only = true};
        WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, apple, &options, &metadata));
        windlass_info(from == 1 ? "live metadata" : "cached metadata", "fruit", shown(metadata, "/metadata/labels/fruit"),
                      "color", color(metadata), NULL);
    }

    json *scale;
    WINDLASS_TRY(windlass_get(cluster, DEPLOYMENT, at(scene, "web"), &(windlass_get_options){.subresource = "scale"}, &scale));
    windlass_info("scale", "kind", shown(scale, "/kind"), "replicas", shown(scale, "/spec/replicas"), NULL);

    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, nothing, NULL, &cached));
    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, nothing, &live, &fresh));
    windlass_info("absent", "cached", yes(cached == NULL), "live", yes(fresh == NULL), NULL);

    json *own;
    windlass_key key = {NULL, scene->key.ns};
    WINDLASS_TRY(windlass_get(cluster, (windlass_kind){"", "v1", "Namespace"}, key, &live, &own));
    windlass_info("namespace", "phase", shown(own, "/status/phase"), NULL);
    return windlass_done();
}

static void show_page(const char *which, const windlass_page *page) {
    windlass_info(which, "names", named(page->items), "more", yes(page->continue_token != NULL), "versioned",
                  yes(page->resource_version[0] != '\0'), NULL);
}

windlass_result listing(const scene *scene) {
    windlass_cluster *cluster = scene->cluster;
    const char *here = scene->key.ns;
    const struct {
        const char *message;
        windlass_list_options options;
    } lists[] = {
        {"by label", {.ns = here, .labels = "set=fruit"}},
        {"by index", {.ns = here, .index = "color", .value = "red"}},
        {"by field", {.ns = here, .fields = "metadata.name=banana"}},
    };
    json *items;
    for (size_t at = 0; at < sizeof lists / sizeof *lists; at++) {
        WINDLASS_TRY(windlass_list_all(cluster, CONFIG_MAP, &lists[at].options, &items));
        windlass_info(lists[at].message, "names", named(items), NULL);
    }

    windlass_list_options two = {.ns = here, .labels = "set=fruit", .limit = 2};
    windlass_page page;
    WINDLASS_TRY(windlass_list(cluster, CONFIG_MAP, &two, &page));
    show_page("first page", &page);
    two.continue_token = page.continue_token;
    WINDLASS_TRY(windlass_list(cluster, CONFIG_MAP, &two, &page));
    show_page("second page", &page);

    two.continue_token = NULL;
    two.live = true;
    WINDLASS_TRY(windlass_list_all(cluster, CONFIG_MAP, &two, &items));
    windlass_info("page by page", "names", named(items), NULL);

    const windlass_list_options metadata = {.ns = here, .labels = "set=fruit", .live = true, .metadata_only = true};
    WINDLASS_TRY(windlass_list_all(cluster, CONFIG_MAP, &metadata, &items));
    int with_data = 0;
    json_each(object, items) {
        with_data += json_get(object, "data") != NULL;
    }
    windlass_info("metadata", "names", named(items), "with_data", number(with_data), NULL);

    const windlass_list_options everywhere = {.labels = windlass_format("of=%s", here), .live = true};
    WINDLASS_TRY(windlass_list_all(cluster, CONFIG_MAP, &everywhere, &items));
    windlass_info("everywhere", "names", named(items), NULL);
    return windlass_done();
}

/* So many reads that memory must be freed. */
windlass_result many(const scene *scene) {
    int read = 0;
    for (int time = 0; time < 3000; time++) {
        windlass_mark_t mark = windlass_mark();
        json *apple;
        WINDLASS_TRY(read_map(scene, "apple", &apple));
        read += apple != NULL;
        windlass_release(mark);
    }
    windlass_info("many", "read", number(read), NULL);
    return windlass_done();
}
