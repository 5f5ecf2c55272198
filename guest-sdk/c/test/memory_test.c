/* What a fleet in memory does for a guest. Each test is named after the fact that it states. */

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "windlass.h"
#include "windlass_memory.h"

static const windlass_kind MAPS = {"", "v1", "ConfigMap"}, SITES = {"example.com", "v1", "Site"};
static const windlass_key A = {"default", "a"};

static windlass_result describe(windlass_description *description) {
    windlass_add_watch(description, (windlass_watch){.kind = MAPS});
    return windlass_done();
}

static json *map_of(const char *name, const char *value) {
    json *object = windlass_object(MAPS, (windlass_key){"default", name});
    return json_set_at(object, "/data/x", json_string(value));
}

static windlass_result copy(const windlass_request *request, windlass_cluster *cluster) {
    (void)request;
    WINDLASS_TRY(windlass_ensure(cluster, map_of("copy", "1"), NULL));
    return windlass_done();
}

static windlass_result map(windlass_cluster *cluster, windlass_kind kind, const json *objects, windlass_requests *requests) {
    json *others;
    WINDLASS_TRY(windlass_list_all(cluster, kind, NULL, &others));
    json_each(object, objects) {
        windlass_add_request(requests, (windlass_request){windlass_name(cluster), windlass_key_of(object)});
    }
    json_each(object, others) {
        windlass_add_request(requests, (windlass_request){windlass_name(cluster), windlass_key_of(object)});
    }
    return windlass_done();
}

WINDLASS_MAPPED_RECONCILER(describe, copy, map)

static json *names_of(const json *objects) {
    json *names = json_array();
    json_each(object, objects) {
        json_append(names, json_string(windlass_key_of(object).name));
    }
    return names;
}

static const windlass_dependents PARTS = {.kinds = &MAPS, .kind_count = 1};

/* Keeps as many ConfigMaps as the site wants. */
static windlass_result keep(const windlass_request *request, windlass_cluster *cluster) {
    json *site, *desired = json_array();
    WINDLASS_TRY(windlass_get(cluster, SITES, request->key, NULL, &site));
    for (long long at = 0; at < json_integer(json_at(site, "/spec/size"), 0); at++) {
        json_append(desired, windlass_object(MAPS, windlass_sibling(request->key, "%s-%lld", request->key.name, at)));
    }
    return site == NULL ? windlass_done() : windlass_reconcile_dependents(cluster, site, desired, &PARTS);
}

static json *site(long long size) {
    return json_set_at(windlass_object(SITES, A), "/spec/size", json_number(size));
}

static void dependents_are_kept_and_pruned_and_a_second_run_writes_nothing(void) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    windlass_memory_put(alpha, site(2));
    assert(windlass_memory_reconcile(alpha, keep, A).outcome == WINDLASS_RESULT_DONE);
    assert(json_same(names_of(windlass_memory_objects(alpha)), json_literal("[\"a\",\"a-0\",\"a-1\"]")));
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
    WINDLASS_TRY(windlass_create_or_update(cluster, SITES, request->key, set_value, "2", NULL));
    json *status = json_set(json_object(), "ready", json_bool(true));
    WINDLASS_TRY(windlass_set_status(cluster, SITES, request->key, status, NULL));
    return windlass_done();
}

static void what_is_ensured_is_written_once(void) {
    windlass_memory *fleet = windlass_memory_new();
    windlass_memory_cluster *alpha = windlass_memory_add(fleet, "alpha");
    windlass_memory_define(fleet, SITES, true);
    for (int time = 0; time < 2; time++) {
        assert(windlass_memory_reconcile(alpha, write_all, A).outcome == WINDLASS_RESULT_DONE);
        assert(windlass_memory_writes(alpha) == 3 && windlass_memory_calls(alpha, WINDLASS_OP_CREATE) == 1);
    }
    assert(windlass_memory_calls(alpha, WINDLASS_OP_GET) == 6);
    assert(json_is_true(json_at(windlass_memory_get(alpha, SITES, A), "/status/ready")));
}

static void finalizers_are_added_and_removed(void) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    windlass_cluster *client = windlass_memory_client(alpha);
    windlass_written held;
    windlass_memory_put(alpha, windlass_object(SITES, A));
    assert(windlass_ensure_finalizer(client, windlass_memory_get(alpha, SITES, A), "example.com/f", &held) == NULL);
    windlass_memory_remove(alpha, SITES, A);
    assert(windlass_remove_finalizer(client, held.object, "example.com/f", NULL)->code == WINDLASS_CONFLICT);
    assert(windlass_remove_finalizer(client, windlass_memory_get(alpha, SITES, A), "example.com/f", NULL) == NULL);
    assert(windlass_memory_get(alpha, SITES, A) == NULL);
}

static void a_call_that_is_to_fail_fails_once(void) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    windlass_memory_fail_next(alpha, WINDLASS_OP_APPLY, WINDLASS_THROTTLED, "slow down");
    windlass_memory_fail_next(alpha, WINDLASS_OP_APPLY, WINDLASS_TIMEOUT, "too late");
    windlass_memory_put(alpha, map_of("b", "1"));
    const char *const messages[] = {"throttled: slow down", "timeout: too late"};
    for (size_t at = 0; at < 2; at++) {
        windlass_result result = windlass_memory_reconcile(alpha, windlass_this_guest.reconcile, A);
        assert(result.outcome == WINDLASS_RESULT_RETRY && strcmp(result.message, messages[at]) == 0);
    }
    assert(windlass_memory_get(alpha, MAPS, (windlass_key){"default", "copy"}) == NULL);
    assert(windlass_memory_reconcile(alpha, windlass_this_guest.reconcile, A).outcome == WINDLASS_RESULT_DONE);
    assert(windlass_memory_calls(alpha, WINDLASS_OP_APPLY) == 3);
}

static void an_error_has_the_http_status_of_its_code(void) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    windlass_cluster *client = windlass_memory_client(alpha);
    const windlass_code codes[] = {WINDLASS_CONFLICT, WINDLASS_THROTTLED, WINDLASS_TIMEOUT};
    const int statuses[] = {409, 429, 0};
    for (size_t at = 0; at < 3; at++) {
        json *found;
        windlass_memory_fail_next(alpha, WINDLASS_OP_GET, codes[at], "no");
        windlass_error *error = windlass_get(client, MAPS, A, NULL, &found);
        assert(error->code == codes[at] && error->http_status == statuses[at]);
    }
}

static windlass_result paint(const windlass_request *request, windlass_cluster *cluster) {
    windlass_info("painted", "color", json_text_at(windlass_config(), "/color"), "at", windlass_now(), NULL);
    windlass_warning(cluster, windlass_object(MAPS, request->key), "Painted", "painted %s", "red");
    return windlass_not_ready(WINDLASS_SECONDS(5), "waits for paint");
}

static void a_guest_reads_the_config_and_the_time_and_writes_logs_and_events(void) {
    windlass_memory *fleet = windlass_memory_new();
    windlass_memory_cluster *alpha = windlass_memory_add(fleet, "alpha");
    windlass_memory_config(fleet, "{\"color\":\"red\"}");
    windlass_memory_now(fleet, "2026-02-03T00:00:00.000Z");
    assert(windlass_memory_reconcile(alpha, paint, A).after_ms == 5000);
    const char *painted =
        "{\"level\":\"info\",\"message\":\"painted\",\"fields\":{\"color\":\"red\",\"at\":\"2026-02-03T00:00:00.000Z\"}}";
    assert(json_same(windlass_memory_logs(fleet)->first, json_literal(painted)) && json_count(windlass_memory_logs(fleet)) == 2);
    const json *event = windlass_memory_events(alpha)->first;
    assert(strcmp(json_text_at(event, "/note"), "painted red") == 0 && strcmp(json_text_at(event, "/about"), "default/a") == 0);
}

static windlass_result visit(const windlass_request *request, windlass_cluster *cluster) {
    (void)cluster;
    windlass_cluster_info *infos;
    windlass_cluster *other;
    size_t count;
    assert(windlass_clusters("region=eu", &infos, &count) == NULL && count == 1 && strcmp(infos[0].name, "beta") == 0);
    assert(strcmp(json_text_at(infos[0].properties, "/zone"), "1") == 0 && infos[0].ready);
    assert(windlass_clusters(NULL, &infos, &count) == NULL && count == 3 && strcmp(infos[0].name, "") == 0);
    windlass_error *denied = windlass_open("gamma", &other);
    const char *message = "this fleet has no cluster \"gamma\": the test names it with windlass_memory_add";
    assert(denied->code == WINDLASS_DENIED && strcmp(denied->message, message) == 0);
    assert(windlass_clusters("region like (eu)", &infos, &count)->code == WINDLASS_INVALID);
    WINDLASS_TRY(windlass_open("beta", &other));
    WINDLASS_TRY(windlass_create(other, map_of("a", "1"), NULL, NULL));
    const char *const names[] = {"alpha", "beta", "gamma"};
    windlass_operation get = {.verb = WINDLASS_OP_GET, .kind = MAPS, .key = request->key};
    windlass_reply *replies = windlass_fleet_batch(names, (windlass_operation[]){get, get, get}, 3);
    assert(replies[0].error == NULL && replies[0].object == NULL && replies[1].object != NULL);
    assert(replies[2].error->code == WINDLASS_DENIED);
    return windlass_done();
}

static void other_clusters_are_listed_and_opened(void) {
    windlass_memory *fleet = windlass_memory_new();
    windlass_memory_cluster *beta = windlass_memory_add(fleet, "beta"), *alpha = windlass_memory_add(fleet, "alpha");
    assert(windlass_memory_add(fleet, "") != alpha && windlass_memory_add(fleet, "beta") == beta);
    windlass_memory_info(beta, json_literal("{\"region\":\"eu\"}"), json_literal("{\"zone\":\"1\"}"));
    assert(windlass_memory_reconcile(alpha, visit, A).outcome == WINDLASS_RESULT_DONE);
    assert(windlass_memory_writes(alpha) == 0 && windlass_memory_writes(beta) == 1);
    windlass_requests requests;
    assert(windlass_memory_map(beta, MAPS, json_append(json_array(), map_of("b", "1")), &requests).outcome ==
           WINDLASS_RESULT_DONE);
    assert(requests.count == 2 && strcmp(requests.items[1].key.name, "a") == 0);
}

/* What a guest sees of the fleet. */
static struct {
    const char *labels;
    windlass_cluster_info *infos;
    size_t count;
    windlass_error *read;
} sight;

static windlass_result look(const windlass_request *request, windlass_cluster *cluster) {
    (void)cluster;
    WINDLASS_TRY(windlass_clusters(sight.labels, &sight.infos, &sight.count));
    windlass_cluster *beta;
    json *object;
    sight.read = windlass_open("beta", &beta);
    if (sight.read == NULL) {
        sight.read = windlass_get(beta, MAPS, request->key, NULL, &object);
    }
    return windlass_done();
}

/* Whether a guest sees one cluster with these labels, and it is ready as this says. */
static bool only(windlass_memory_cluster *from, const char *labels, const char *name, bool ready) {
    sight.labels = labels;
    assert(windlass_memory_reconcile(from, look, A).outcome == WINDLASS_RESULT_DONE);
    return sight.count == 1 && strcmp(sight.infos[0].name, name) == 0 && sight.infos[0].ready == ready;
}

static void clusters_change_labels_fail_heal_leave_and_join_again(void) {
    windlass_memory *fleet = windlass_memory_new();
    windlass_memory_cluster *alpha = windlass_memory_add(fleet, "alpha"), *beta = windlass_memory_add(fleet, "beta");
    windlass_memory_put(beta, map_of("a", "1"));
    windlass_memory_info(beta, json_literal("{\"region\":\"eu\"}"), NULL);
    assert(only(alpha, "region=eu", "beta", true) && sight.read == NULL);
    windlass_memory_fail(beta, WINDLASS_MEMORY_ERRORS);
    only(alpha, "region=eu", "beta", true);
    assert(sight.read != NULL);
    windlass_memory_fail(beta, WINDLASS_MEMORY_UNREACHABLE);
    assert(only(alpha, "region=eu", "beta", false) && sight.read != NULL);
    windlass_memory_heal(beta);
    assert(only(alpha, "region=eu", "beta", true) && sight.read == NULL);
    windlass_memory_unlabel(beta, "region");
    assert(!only(alpha, "region=eu", "beta", true) && sight.count == 0);
    windlass_memory_leave(beta);
    assert(only(alpha, NULL, "alpha", true) && sight.read->code == WINDLASS_DENIED);
    windlass_memory_add(fleet, "beta");
    assert(!only(alpha, NULL, "alpha", true) && sight.read == NULL);
}

static void lists_come_in_pages_and_a_batch_answers_each_call(void) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    windlass_cluster *client = windlass_memory_client(alpha);
    for (int at = 0; at < 5; at++) {
        windlass_memory_put(alpha, map_of(windlass_format("m-%d", at), "1"));
    }
    json *items;
    assert(windlass_list_all(client, MAPS, &(windlass_list_options){.limit = 2, .metadata_only = true}, &items) == NULL);
    assert(json_count(items) == 5 && json_get(items->first, "data") == NULL &&
           windlass_memory_calls(alpha, WINDLASS_OP_LIST) == 3);
    windlass_page page;
    assert(windlass_list(client, MAPS, &(windlass_list_options){.index = "color", .value = "red"}, &page)->code ==
           WINDLASS_INVALID);
    windlass_operation operations[] = {
        {.verb = WINDLASS_OP_LIST, .kind = MAPS},
        {.verb = WINDLASS_OP_APPLY, .object = map_of("a", "1")},
        {.verb = WINDLASS_OP_DELETE, .kind = MAPS, .key = {"default", "none"}},
    };
    windlass_reply *replies = windlass_batch(client, operations, 3);
    assert(json_count(replies[0].page.items) == 5 && replies[1].object != NULL);
    assert(replies[2].error->code == WINDLASS_NOT_FOUND && windlass_memory_writes(alpha) == 2);
}

static void every_call_reaches_the_server(void) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    windlass_cluster *client = windlass_memory_client(alpha);
    json *stored, *made;
    assert(windlass_create(client, map_of("a", "1"), NULL, &made) == NULL && json_text_at(made, "/metadata/uid") != NULL);
    assert(windlass_create(client, map_of("a", "1"), NULL, NULL)->code == WINDLASS_ALREADY_EXISTS);
    json_set_at(made, "/data/x", json_string("2"));
    assert(windlass_update(client, made, NULL, NULL) == NULL);
    json_set_at(made, "/data/x", json_string("3"));
    windlass_error *conflict = windlass_update(client, made, NULL, NULL);
    assert(conflict->code == WINDLASS_CONFLICT && conflict->http_status == 409 && strcmp(conflict->reason, "Conflict") == 0);
    json *patch = json_literal("[{\"op\":\"replace\",\"path\":\"/data/x\",\"value\":\"4\"}]");
    assert(windlass_patch(client, MAPS, A, WINDLASS_JSON_PATCH, patch, NULL, &stored) == NULL);
    assert(strcmp(json_text_at(stored, "/data/x"), "4") == 0);
    assert(windlass_apply(client, map_of("a", "5"), NULL, NULL)->code == WINDLASS_CONFLICT);
    assert(windlass_apply(client, map_of("a", "5"), &(windlass_write_options){.force = true}, NULL) == NULL);
    assert(windlass_get(client, MAPS, A, &(windlass_get_options){.live = true}, &stored) == NULL);
    assert(strcmp(json_text_at(stored, "/data/x"), "5") == 0);
    windlass_delete_options another = {.uid = "another"}, background = {.propagation = WINDLASS_BACKGROUND};
    assert(windlass_delete(client, MAPS, A, &another, NULL)->code == WINDLASS_CONFLICT);
    bool deleted = false;
    assert(windlass_delete(client, MAPS, A, &background, &deleted) == NULL && deleted);
    assert(windlass_delete(client, MAPS, A, NULL, &deleted) == NULL && !deleted);
    windlass_memory_put(alpha, map_of("b", "1"));
    assert(windlass_delete_collection(client, MAPS, &(windlass_list_options){.fields = "metadata.name=b"}, NULL) == NULL);
    assert(json_count(windlass_memory_objects(alpha)) == 0);
    windlass_error *unknown = windlass_get(client, (windlass_kind){"example.com", "v1", "None"}, A, NULL, &stored);
    assert(unknown->code == WINDLASS_UNKNOWN_KIND);
}

static void a_dry_run_stores_nothing_and_objects_are_copies(void) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    windlass_cluster *client = windlass_memory_client(alpha);
    windlass_write_options dry = {.dry_run = true};
    json *stored;
    assert(windlass_create(client, map_of("a", "1"), &dry, &stored) == NULL);
    assert(windlass_apply(client, map_of("a", "1"), &dry, NULL) == NULL && windlass_memory_get(alpha, MAPS, A) == NULL);
    windlass_memory_put(alpha, stored);
    assert(windlass_delete(client, MAPS, A, &(windlass_delete_options){.dry_run = true}, NULL) == NULL);
    assert(windlass_get(client, MAPS, A, NULL, &stored) == NULL);
    json_set_at(stored, "/data/x", json_string("2"));
    assert(strcmp(json_text_at(windlass_memory_get(alpha, MAPS, A), "/data/x"), "1") == 0);
}

static windlass_result asks(const windlass_request *request, windlass_cluster *cluster) {
    (void)request, (void)cluster;
    windlass_http_response answer;
    WINDLASS_TRY(windlass_http_get("https://a.example.com/", &answer));
    return windlass_requeue_after((uint64_t)answer.status);
}

static void teapot(void *context, const windlass_http_request *request, windlass_http_response *response) {
    assert(strcmp(request->method, "GET") == 0 && strcmp(request->url, "https://a.example.com/") == 0);
    response->status = *(int *)context;
}

static void other_servers_answer_what_the_test_says(void) {
    windlass_memory *fleet = windlass_memory_new();
    windlass_memory_cluster *alpha = windlass_memory_add(fleet, "alpha");
    assert(strstr(windlass_memory_reconcile(alpha, asks, A).message, "windlass_memory_serve") != NULL);
    windlass_memory_serve(fleet, teapot, &(int){418});
    assert(windlass_memory_reconcile(alpha, asks, A).after_ms == 418);
}

int main(void) {
    void (*const tests[])(void) = {
        dependents_are_kept_and_pruned_and_a_second_run_writes_nothing,
        what_is_ensured_is_written_once,
        finalizers_are_added_and_removed,
        a_call_that_is_to_fail_fails_once,
        an_error_has_the_http_status_of_its_code,
        a_guest_reads_the_config_and_the_time_and_writes_logs_and_events,
        other_clusters_are_listed_and_opened,
        clusters_change_labels_fail_heal_leave_and_join_again,
        lists_come_in_pages_and_a_batch_answers_each_call,
        every_call_reaches_the_server,
        a_dry_run_stores_nothing_and_objects_are_copies,
        other_servers_answer_what_the_test_says,
    };
    size_t count = sizeof tests / sizeof *tests;
    for (size_t at = 0; at < count; at++) {
        tests[at]();
    }
    printf("%zu tests of the fleet in memory in C passed\n", count);
    return 0;
}
