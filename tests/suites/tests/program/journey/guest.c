/* Keeps a ConfigMap with the size of each Shelf. */

#include <windlass.h>

#include "shelf_types.h"

static const windlass_kind CONFIG_MAP = {"", "v1", "ConfigMap"};

static windlass_result describe(windlass_description *description) {
    description->title = "labels shelves";
    windlass_add_watch(description, (windlass_watch){.kind = SHELF_KIND});
    windlass_add_watch(description, (windlass_watch){.kind = CONFIG_MAP, .enqueue = WINDLASS_CONTROLLER_OWNER});
    return windlass_done();
}

static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    json *shelf;
    WINDLASS_TRY(windlass_get(cluster, SHELF_KIND, request->key, NULL, &shelf));
    if (shelf == NULL) {
        return windlass_done();
    }
    json *label = windlass_object(CONFIG_MAP, request->key);
    WINDLASS_TRY(windlass_set_controller(label, shelf));
    long long size = json_integer(json_at(shelf, SHELF_SPEC_SIZE), 0);
    json_set_at(label, "/data/text", json_string(windlass_format("room for %lld", size)));
    WINDLASS_TRY(windlass_ensure(cluster, label, NULL));
    json *changed = json_set_at(json_object(), SHELF_STATUS_PHASE, json_string("Labelled"));
    WINDLASS_TRY(windlass_set_status(cluster, SHELF_KIND, request->key, json_at(changed, SHELF_STATUS), NULL));
    return windlass_done();
}

WINDLASS_RECONCILER(describe, reconcile)
