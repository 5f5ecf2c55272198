/* Greets in one language: beside each ConfigMap labelled polyglot.windlass.dev/greet it keeps a ConfigMap <name>-<language>. */

#include <windlass.h>

static const windlass_kind CONFIG_MAP = {"", "v1", "ConfigMap"};

/* The label that asks for greetings; its value is the name in the greeting. */
static const char GREET[] = "polyglot.windlass.dev/greet";

/* What the operator configures: the end of the greeting's name, and what is said. */
static windlass_result settings(const char **language, const char **greeting) {
    const json *config = windlass_config();
    *language = json_text_at(config, "/language");
    *greeting = json_text_at(config, "/greeting");
    if (*language == NULL || *greeting == NULL) {
        return windlass_retry("config: expected a language and a greeting");
    }
    return windlass_done();
}

static windlass_result describe(windlass_description *description) {
    description->title = "greets in one language, in C";
    windlass_add_watch(description, (windlass_watch){.kind = CONFIG_MAP, .labels = GREET});
    windlass_add_watch(description, (windlass_watch){.kind = CONFIG_MAP, .enqueue = WINDLASS_CONTROLLER_OWNER});
    const char *language, *greeting;
    return settings(&language, &greeting); /* wrong ones fail the load */
}

static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    json *asking;
    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, request->key, NULL, &asking));
    const char *who = windlass_label(asking, GREET);
    if (who == NULL) {
        return windlass_done();
    }
    const char *language = json_text_at(windlass_config(), "/language");
    const char *greeting = json_text_at(windlass_config(), "/greeting");
    windlass_key key = windlass_sibling(request->key, "%s-%s", request->key.name, language);
    json *wanted = windlass_object(CONFIG_MAP, key);
    WINDLASS_TRY(windlass_set_controller(wanted, asking));
    const char *text = windlass_format("%s, %s, from %s", greeting, who, windlass_name(cluster));
    json_set_at(wanted, "/data/greeting", json_string(text));
    json *present;
    WINDLASS_TRY(windlass_get(cluster, CONFIG_MAP, key, NULL, &present));
    if (present == NULL || !json_same(json_get(present, "data"), json_get(wanted, "data"))) {
        WINDLASS_TRY(windlass_apply(cluster, wanted, &(windlass_write_options){.force = true}, NULL));
        windlass_info("greeted", "who", who, "greeting", key.name, NULL);
    }
    return windlass_done();
}

WINDLASS_RECONCILER(describe, reconcile)
