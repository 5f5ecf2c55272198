/* The fleet in memory: the cases that every SDK's passes, guest-sdk/spec/memory, and guests on it. Usage: memory_test FILE… */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "windlass.h"
#include "windlass_memory.h"
#include "windlass_test.h"

static const windlass_kind MAPS = {"", "v1", "ConfigMap"}, SITES = {"example.com", "v1", "Site"};
static const windlass_key A = {"default", "a"};

/* ---- Cases of the specification ---- */

static windlass_kind kind_from(const char *text) {
    const char *kind = strrchr(text, '/'), *version = strchr(text, '/');
    if (version == kind) {
        return (windlass_kind){"", windlass_format("%.*s", (int)(kind - text), text), kind + 1};
    }
    return (windlass_kind){windlass_format("%.*s", (int)(version - text), text),
                           windlass_format("%.*s", (int)(kind - version - 1), version + 1), kind + 1};
}

static windlass_key key_from(const char *text) {
    const char *slash = strchr(text, '/');
    return (windlass_key){windlass_format("%.*s", (int)(slash - text), text), slash + 1};
}

/* Whether a value has at least these fields; null is a field that must not be there. */
static bool has(const json *found, const json *wanted) {
    if (wanted->type == JSON_NULL) {
        return found == NULL;
    }
    if (wanted->type != JSON_OBJECT) {
        return json_same(found, wanted);
    }
    json_each(each, wanted) {
        if (!has(json_get(found, each->name), each)) {
            return false;
        }
    }
    return found != NULL;
}

static json *names_of(const json *objects) {
    json *names = json_array();
    json_each(object, objects) {
        json_append(names, json_string(windlass_key_of(object).name));
    }
    return names;
}

/* Does what a step says, and sets what it answers; NULL is nothing. */
static windlass_error *take(windlass_memory_cluster *alpha, const json *step, json **answer) {
    windlass_cluster *client = windlass_memory_client(alpha);
    windlass_write_options write = {.subresource = json_is_true(json_get(step, "status")) ? "status" : NULL};
    const json *with = step->first;
    const char *what = with->name, *kind_text = json_text_at(with, "/kind"), *key_text = json_text_at(with, "/key");
    if (strcmp(what, "put") == 0) {
        windlass_memory_put(alpha, with);
        return NULL;
    }
    if (strcmp(what, "create") == 0) {
        return windlass_create(client, with, &write, answer);
    }
    if (strcmp(what, "update") == 0) {
        return windlass_update(client, with, &write, answer);
    }
    if (strcmp(what, "apply") == 0) {
        return windlass_apply(client, with, &write, answer);
    }
    windlass_kind kind = kind_from(kind_text);
    windlass_key key = key_text == NULL ? (windlass_key){0} : key_from(key_text);
    if (strcmp(what, "remove") == 0) {
        windlass_memory_remove(alpha, kind, key);
        return NULL;
    }
    if (strcmp(what, "patch") == 0) {
        return windlass_patch(client, kind, key, WINDLASS_MERGE, json_get(with, "patch"), &write, answer);
    }
    if (strcmp(what, "get") == 0) {
        return windlass_get(client, kind, key, NULL, answer);
    }
    if (strcmp(what, "delete") == 0) {
        windlass_delete_options options = {.uid = json_text_at(with, "/uid"),
                                           .resource_version = json_text_at(with, "/resourceVersion")};
        bool deleted = false;
        windlass_error *error = windlass_delete(client, kind, key, &options, &deleted);
        *answer = json_bool(deleted);
        return error;
    }
    windlass_list_options selection = {.ns = json_text_at(with, "/namespace"),
                                       .labels = json_text_at(with, "/labelSelector"),
                                       .fields = json_text_at(with, "/fieldSelector"),
                                       .limit = (uint32_t)json_integer(json_get(with, "limit"), 0)};
    if (strcmp(what, "deleteCollection") == 0) {
        return windlass_delete_collection(client, kind, &selection, NULL);
    }
    assert(strcmp(what, "list") == 0);
    windlass_page page;
    windlass_error *error = windlass_list(client, kind, &selection, &page);
    if (error == NULL) {
        assert((page.continue_token != NULL) == json_is_true(json_get(step, "more")));
        *answer = names_of(page.items);
    }
    return error;
}

static void run(const json *spec) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    json_each(step, json_get(spec, "steps")) {
        json *answer = NULL;
        windlass_error *error = take(alpha, step, &answer);
        const char *fails = json_text_at(step, "/fails"), *failed = error == NULL ? NULL : windlass_code_name(error->code);
        const json *wanted = json_get(step, "answer");
        bool as_said = fails == NULL ? failed == NULL : failed != NULL && strcmp(fails, failed) == 0;
        if (!as_said || (wanted != NULL && !has(answer, wanted))) {
            fprintf(stderr, "%s: got\n  %s\nat\n  %s\n", json_text_at(spec, "/name"),
                    failed != NULL ? failed : json_print(json_copy(answer)), json_print(step));
            exit(1);
        }
    }
}

static json *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    assert(file != NULL && fseek(file, 0, SEEK_END) == 0);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(length);
    assert(text != NULL && fread(text, 1, length, file) == length);
    fclose(file);
    json *value = json_parse(text, length, NULL);
    free(text);
    assert(value != NULL);
    return value;
}

/* ---- Guests. Each test is named after the fact that it states. ---- */

static const windlass_dependents PARTS = {.kinds = &MAPS, .kind_count = 1};

static windlass_result describe(windlass_description *description) {
    windlass_add_watch(description, (windlass_watch){.kind = SITES});
    windlass_add_dependents(description, &PARTS);
    return windlass_done();
}

/* Keeps as many ConfigMaps as the site wants. */
static windlass_result keep(const windlass_request *request, windlass_cluster *cluster) {
    json *site, *desired = json_array();
    WINDLASS_TRY(windlass_get(cluster, SITES, request->key, NULL, &site));
    for (long long at = 0; at < json_integer(json_at(site, "/spec/size"), 0); at++) {
        json_append(desired, windlass_object(MAPS, windlass_sibling(request->key, "%s-%lld", request->key.name, at)));
    }
    return site == NULL ? windlass_done() : windlass_reconcile_dependents(cluster, site, desired, &PARTS);
}

WINDLASS_RECONCILER(describe, keep)

static json *site(long long size) {
    return json_set_at(windlass_object(SITES, A), "/spec/size", json_number(size));
}

static json *map_of(const char *name, const char *value) {
    json *object = windlass_object(MAPS, (windlass_key){"default", name});
    return json_set_at(object, "/data/x", json_string(value));
}

static void dependents_are_kept_and_pruned_and_a_second_run_writes_nothing(void) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    windlass_memory_put(alpha, site(2));
    assert(windlass_memory_reconcile(alpha, windlass_this_guest.reconcile, A).outcome == WINDLASS_RESULT_DONE);
    assert(json_same(names_of(windlass_memory_objects(alpha)), json_literal("[\"a-0\",\"a-1\",\"a\"]")));
    const json *ready = windlass_get_condition(windlass_memory_get(alpha, SITES, A), "Ready");
    assert(strcmp(json_text_at(ready, "/lastTransitionTime"), "2026-01-31T09:30:00Z") == 0);
    size_t writes = windlass_memory_writes(alpha);
    assert(writes == 3);
    assert(windlass_memory_reconcile(alpha, keep, A).outcome == WINDLASS_RESULT_DONE);
    assert(windlass_memory_writes(alpha) == writes);

    windlass_memory_put(alpha, site(1));
    assert(windlass_memory_reconcile(alpha, keep, A).outcome == WINDLASS_RESULT_DONE);
    assert(windlass_memory_get(alpha, MAPS, (windlass_key){"default", "a-1"}) == NULL);
    windlass_memory_remove(alpha, SITES, A);
    assert(json_count(windlass_memory_objects(alpha)) == 0);
}

static void set_value(json *object, void *context) {
    json_set_at(object, "/data/x", json_string(context));
}

static windlass_result write_all(const windlass_request *request, windlass_cluster *cluster) {
    WINDLASS_TRY(windlass_ensure(cluster, map_of("copy", "1"), NULL));
    WINDLASS_TRY(windlass_create_or_update(cluster, MAPS, request->key, set_value, "2", NULL));
    json *status = json_set(json_object(), "ready", json_bool(true));
    WINDLASS_TRY(windlass_set_status(cluster, MAPS, request->key, status, NULL));
    return windlass_done();
}

static void what_is_ensured_is_written_once(void) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    for (int time = 0; time < 2; time++) {
        assert(windlass_memory_reconcile(alpha, write_all, A).outcome == WINDLASS_RESULT_DONE);
        assert(windlass_memory_writes(alpha) == 3 && windlass_memory_calls(alpha, WINDLASS_OP_CREATE) == 1);
    }
    assert(windlass_memory_calls(alpha, WINDLASS_OP_GET) == 6);
    assert(json_is_true(json_at(windlass_memory_get(alpha, MAPS, A), "/status/ready")));
}

int main(int count, char **paths) {
    size_t cases = 0;
    for (int at = 1; at < count; at++) {
        const json *spec = read_file(paths[at]);
        json_each(each, json_get(spec, "cases")) {
            run(each);
            cases++;
        }
    }
    assert(cases >= 12);
    dependents_are_kept_and_pruned_and_a_second_run_writes_nothing();
    what_is_ensured_is_written_once();
    printf("%zu cases of the fleet in memory and 2 guests on it passed in C\n", cases);
    return 0;
}
