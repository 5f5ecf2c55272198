/* Keeps a ConfigMap with the text of each {{kind}}, and a copy of it in another namespace. */

#include <windlass.h>

#include "{{types}}"

static const windlass_kind CONFIG_MAP = {"", "v1", "ConfigMap"};

/*
 * The kinds of the objects that a {{kind}} should have. It cannot own the copy, which is in another namespace: the finalizer waits for
 * its deletion. A controller without such objects needs no finalizer.
 */
static const windlass_dependents PARTS = {
    .kinds = &CONFIG_MAP,
    .kind_count = 1,
    .finalizer = "{{group}}/copy",
};

/* Watches the kind, and its dependents: an event on one of them enqueues its owner. */
static windlass_result describe(windlass_description *description) {
    description->title = "keeps a ConfigMap for each {{kind}}";
    windlass_add_watch(description, (windlass_watch){.kind = {{constant}}_KIND});
    windlass_add_dependents(description, &PARTS);
    return windlass_done();
}

/* Adds a ConfigMap to the desired objects. */
static void add(json *desired, windlass_key key, const char *text) {
    json *wanted = windlass_object(CONFIG_MAP, key);
    json_set_at(wanted, "/data/text", json_string(text));
    json_append(desired, wanted);
}

/*
 * Brings the dependents of one object to their desired state. Called again until it succeeds, and after every change that may
 * matter. A request names an object and never an event. An error (WINDLASS_TRY) is retried with growing delay. Nothing is freed by
 * hand: the memory belongs to the call.
 */
static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    /* Reads come from the host's cache. */
    json *object;
    WINDLASS_TRY(windlass_get(cluster, {{constant}}_KIND, request->key, NULL, &object));
    if (object == NULL) {
        return windlass_done();
    }
    const char *text = json_text_at(object, {{constant}}_SPEC_TEXT);
    const char *copy_to = json_text_at(object, {{constant}}_SPEC_COPY_TO);
    /* The name of the object alone may be that of a ConfigMap of somebody else. */
    windlass_key key = windlass_sibling(request->key, "%s-{{singular}}", request->key.name);
    json *desired = json_array();
    add(desired, key, text);
    if (copy_to != NULL) {
        add(desired, (windlass_key){copy_to, windlass_format("%s.%s", key.ns, key.name)}, text);
    }

    /* Applies what differs, deletes what is no longer desired, and sets the conditions Ready and Progressing. */
    windlass_dependents parts = PARTS;
    parts.status = json_set(json_object(), "observedGeneration", json_at(object, "/metadata/generation"));
    return windlass_reconcile_dependents(cluster, object, desired, &parts);
}

WINDLASS_RECONCILER(describe, reconcile)
