/* Greets: keeps a ConfigMap <name>-greeting beside each ConfigMap labelled hello.windlass.dev/greet. */

#include <windlass.h>

static const windlass_kind CONFIG_MAP = {"", "v1", "ConfigMap"};

/* The label that asks for a greeting; its value is the name in the greeting. */
static const char GREET[] = "hello.windlass.dev/greet";

/* Watches the ConfigMaps with the label, and the greetings: an event on a greeting enqueues its owner. */
static windlass_result describe(windlass_description *description) {
    description->title = "greets the people that ConfigMaps name";
    windlass_add_watch(description, (windlass_watch){.kind = CONFIG_MAP, .labels = GREET});
    windlass_add_watch(description, (windlass_watch){.kind = CONFIG_MAP, .enqueue = WINDLASS_CONTROLLER_OWNER});
    return windlass_done();
}

/*
 * Creates or updates one greeting. Called again until it succeeds, and after every change that may matter. A request
 * names an object and never an event. An error (WINDLASS_TRY) is retried with growing delay. Nothing is freed by hand: the
 * memory belongs to the call.
 */
static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    /* Reads come from the host's cache. A deleted object needs nothing: the garbage collector deletes its greeting. */
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

    /* Write only the differences. */
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
