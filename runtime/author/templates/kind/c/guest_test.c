/* Tests of the guest, in a cluster in memory: `make test`. */

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <windlass_memory.h>

#include "{{types}}"

static const windlass_kind CONFIG_MAP = {"", "v1", "ConfigMap"}, NAMESPACE = {"", "v1", "Namespace"};
static const windlass_key KEY = {"default", "example"}, OWN = {"default", "example-{{singular}}"};
static const windlass_key COPY = {"copies", "default.example-{{singular}}"};

/* A cluster with an object that has a copy. */
static windlass_memory_cluster *example(void) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    windlass_memory_put(alpha, windlass_object(NAMESPACE, (windlass_key){.name = "copies"}));
    json *object = windlass_object({{constant}}_KIND, KEY);
    json_set_at(object, {{constant}}_SPEC_TEXT, json_string("hello"));
    json_set_at(object, {{constant}}_SPEC_COPY_TO, json_string("copies"));
    windlass_memory_put(alpha, object);
    return alpha;
}

static void reconcile(windlass_memory_cluster *alpha) {
    windlass_result result = windlass_memory_reconcile(alpha, windlass_this_guest.reconcile, KEY);
    assert(result.outcome == WINDLASS_RESULT_DONE);
}

static void says_hello(windlass_memory_cluster *alpha, windlass_key key) {
    const json *found = windlass_memory_get(alpha, CONFIG_MAP, key);
    assert(found != NULL && strcmp(json_text_at(found, "/data/text"), "hello") == 0);
}

static void an_object_has_a_config_map_and_a_copy(void) {
    windlass_memory_cluster *alpha = example();
    reconcile(alpha);
    says_hello(alpha, OWN);
    says_hello(alpha, COPY);

    json *object = windlass_memory_get(alpha, {{constant}}_KIND, KEY);
    assert(json_same(json_at(object, {{constant}}_STATUS_OBSERVED_GENERATION), json_at(object, "/metadata/generation")));
    assert(strcmp(json_text_at(windlass_get_condition(object, "Ready"), "/status"), "True") == 0);

    size_t writes = windlass_memory_writes(alpha);
    reconcile(alpha);
    assert(windlass_memory_writes(alpha) == writes);
}

static void the_copy_goes_before_the_object(void) {
    windlass_memory_cluster *alpha = example();
    reconcile(alpha);
    windlass_memory_remove(alpha, {{constant}}_KIND, KEY);
    assert(windlass_memory_get(alpha, {{constant}}_KIND, KEY) != NULL); /* the finalizer holds it */

    reconcile(alpha);
    assert(windlass_memory_get(alpha, CONFIG_MAP, COPY) == NULL);
    assert(windlass_memory_get(alpha, {{constant}}_KIND, KEY) == NULL);
}

int main(void) {
    an_object_has_a_config_map_and_a_copy();
    the_copy_goes_before_the_object();
    puts("2 tests passed");
    return 0;
}
