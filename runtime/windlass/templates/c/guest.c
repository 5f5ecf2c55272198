/* Greets: keeps a ConfigMap <name>-greeting beside each ConfigMap labelled hello.windlass.dev/greet. */

#include <windlass.h>

static const windlass_kind CONFIG_MAP = {"", "v1", "ConfigMap"};

/* The label that asks for a greeting; its value is who is greeted. */
static const char GREET[] = "hello.windlass.dev/greet";

/* What is watched: those who ask, and the greetings, which lead back to their owner. */
static windlass_result describe(windlass_description *description) {
    description->title = "greets whom ConfigMaps ask to greet";
    windlass_add_watch(description, (windlass_watch){.kind = CONFIG_MAP, .labels = GREET});
    windlass_add_watch(description, (windlass_watch){.kind = CONFIG_MAP, .enqueue = WINDLASS_CONTROLLER_OWNER});
    return windlass_done();
}

/*
 * Makes one greeting as it should be. Called again until it succeeds, and whenever something may have changed: a request says
 * what to look at, never what happened. An error (WINDLASS_TRY) is tried again with growing delay. Nothing is freed: memory is
 * that of the call.
 */
static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    /* Reads come from the host's cache. What is gone needs nothing: the garbage collector takes what it owned. */
    json *asking;
    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, request->key, NULL, &asking));
    const char *who = windlass_label(asking, GREET);
    if (who == NULL) {
        return windlass_done();
    }
    windlass_key key = windlass_sibling(request->key, "%s-greeting", request->key.name);
    json *wanted = windlass_object(CONFIG_MAP, key);
    WINDLASS_TRY(windlass_set_controller(wanted, asking));
    const char *greeting = windlass_format("hello, %s, from %s", who, windlass_name(cluster));
    json_set_at(wanted, "/data/greeting", json_string(greeting));

    /* Write only what differs. */
    json *present;
    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, key, NULL, &present));
    if (present != NULL && json_same(json_get(present, "data"), json_get(wanted, "data"))) {
        return windlass_done();
    }
    WINDLASS_TRY(windlass_apply(cluster, wanted, &(windlass_write_options){.force = true}, NULL));
    windlass_event(cluster, asking, "Greeted", "%s is greeted by %s", who, key.name);
    windlass_info("greeted", "who", who, "greeting", key.name, NULL);
    return windlass_done();
}

WINDLASS_RECONCILER(describe, reconcile)
