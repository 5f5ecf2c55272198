/* The names of fields lead to their values, and fields that no name leads to are kept. The object and the object after the guest's changes
 * are in files. */

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <windlass_test.h>

#include "headers.h"

static const windlass_key KEY = {"default", "a"};

static json *of_file(const char *name) {
    static char text[1 << 20];
    FILE *file = fopen(name, "r");
    assert(file != NULL);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    json *object = json_parse(text, length, NULL);
    assert(object != NULL);
    return object;
}

static void names_lead_to_values(const json *odd) {
    const char *texts[][2] = {
        {ODD_SPEC_HOST, "h"},        {ODD_SPEC_CLASS, ODD_SPEC_CLASS_A_B}, {ODD_SPEC_TYPE, "t"},
        {ODD_SPEC_SELF, "s"},        {ODD_SPEC_X_Y, "x"},                  {ODD_SPEC_REF, "r"},
        {ODD_SPEC_N2ND, "2"},        {ODD_SPEC_DUNDER, "d"},               {ODD_SPEC_FOO_BAR, "1"},
        {ODD_SPEC_FOO_BAR2, "2"},    {ODD_SPEC_METADATA, "m"},             {ODD_SPEC_KIND, "k"},
        {ODD_SPEC_LIMIT, "50%"},     {ODD_SPEC_OPEN_KNOWN, "k"},           {ODD_SPEC_LABELS "/c", "d"},
        {ODD_SPEC_PORTS "/0" ODD_SPEC_BY_NAME_ITEM_TARGET, "web"},           {ODD_SPEC_SOLVER_DNS_ZONE, "z"},
    };
    for (size_t at = 0; at < sizeof texts / sizeof texts[0]; at++) {
        const char *text = json_text_at(odd, texts[at][0]);
        assert(text != NULL && strcmp(text, texts[at][1]) == 0);
    }
    assert(json_integer(json_at(odd, ODD_SPEC_REPLICAS), 0) == 3);
    assert(json_at(odd, ODD_SPEC_SOLVER_HTTP_PATH) == NULL);
    assert(json_is_true(json_at(odd, ODD_STATUS_READY)));
    json_each(port, json_at(odd, ODD_SPEC_BY_NAME)) {
        assert(json_integer(json_at(port, ODD_SPEC_BY_NAME_ITEM_PORT), 0) == 1);
    }
}

static void what_has_no_name_is_kept(const json *odd, const json *changed) {
    const char *class = json_text_at(changed, ODD_SPEC_CLASS);
    json *updated = json_set_at(json_copy(changed), ODD_SPEC_CLASS, json_copy(json_at(odd, ODD_SPEC_CLASS)));
    json *patch = json_set_at(json_object(), ODD_SPEC_CLASS, json_string(class));
    windlass_script *script = windlass_script_new("alpha");
    windlass_expect(script, (windlass_operation){.verb = WINDLASS_OP_GET, .kind = ODD_KIND, .key = KEY},
                    (windlass_reply){.object = json_copy(odd)});
    windlass_expect(script, (windlass_operation){.verb = WINDLASS_OP_UPDATE, .object = updated}, (windlass_reply){.object = updated});
    windlass_expect(script, (windlass_operation){.verb = WINDLASS_OP_PATCH, .kind = ODD_KIND, .key = KEY, .object = patch},
                    (windlass_reply){.object = json_copy(changed)});
    assert(windlass_script_reconcile(script, KEY).outcome == WINDLASS_RESULT_DONE);
}

#ifdef POD_SPEC_CONTAINERS
/* What the next reconcile changes. */
static struct change {
    const char *file;
    windlass_kind kind;
    windlass_key key;
    const char *path;
    json *value;
} change;

static windlass_result change_one(const windlass_request *request, windlass_cluster *cluster) {
    json *object;
    WINDLASS_TRY(windlass_get(cluster, change.kind, request->key, NULL, &object));
    json_set_at(object, "/metadata/labels/kept", json_string("yes"));
    json_set_at(object, change.path, change.value);
    WINDLASS_TRY(windlass_update(cluster, object, NULL, NULL));
    return windlass_done();
}

/* Of the guest. */
extern windlass_result (*instead)(const windlass_request *request, windlass_cluster *cluster);

/* Objects that a server stored are as they were, but for what the guest changes. */
static void stored_objects_survive(void) {
    instead = change_one;
    const windlass_key web = {"default", "web"};
    const struct change changes[] = {
        {"cluster", CLUSTER_KIND, web, CLUSTER_SPEC_TOPOLOGY_VERSION, json_string("v1.35.0")},
        {"cluster_class", CLUSTER_CLASS_KIND, web, CLUSTER_CLASS_SPEC_VARIABLES "/0" CLUSTER_CLASS_SPEC_VARIABLE_ITEM_REQUIRED, json_bool(false)},
        {"config_map", CONFIG_MAP_KIND, web, CONFIG_MAP_DATA "/b", json_string("2")},
        {"custom_resource_definition", CUSTOM_RESOURCE_DEFINITION_KIND, {NULL, "clusters.cluster.x-k8s.io"},
         CUSTOM_RESOURCE_DEFINITION_SPEC_VERSIONS "/0" CUSTOM_RESOURCE_DEFINITION_VERSION_ITEM_SERVED, json_bool(false)},
        {"deployment", DEPLOYMENT_KIND, web, DEPLOYMENT_SPEC_REPLICAS, json_number(3)},
        {"issuer", ISSUER_KIND, web, ISSUER_SPEC_ACME_SERVER, json_string("https://other.example.com")},
        {"machine_deployment", MACHINE_DEPLOYMENT_KIND, web, MACHINE_DEPLOYMENT_SPEC_REPLICAS, json_number(3)},
        {"pod", POD_KIND, web, POD_SPEC_CONTAINERS "/0" POD_CONTAINER_ITEM_IMAGE, json_string("nginx:2")},
        {"stored_odd", ODD_KIND, web, ODD_SPEC_PORTS "/1" ODD_SPEC_BY_NAME_ITEM_PORT, json_number(8443)},
    };
    for (size_t at = 0; at < sizeof changes / sizeof changes[0]; at++) {
        change = changes[at];
        windlass_script *script = windlass_script_new("alpha");
        windlass_expect(script, (windlass_operation){.verb = WINDLASS_OP_GET, .kind = change.kind, .key = change.key},
                        (windlass_reply){.object = of_file(windlass_format("%s.json", change.file))});
        json *changed = of_file(windlass_format("%s.changed.json", change.file));
        windlass_expect(script, (windlass_operation){.verb = WINDLASS_OP_UPDATE, .object = changed}, (windlass_reply){.object = changed});
        assert(windlass_script_reconcile(script, change.key).outcome == WINDLASS_RESULT_DONE);
    }
}
#endif

int main(void) {
    int tests = 2;
    const json *odd = of_file("odd.json");
    names_lead_to_values(odd);
    what_has_no_name_is_kept(odd, of_file("changed.json"));
#ifdef POD_SPEC_CONTAINERS
    stored_objects_survive();
    tests++;
#endif
    printf("%d tests passed\n", tests);
    return 0;
}
