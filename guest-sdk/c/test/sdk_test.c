/* The SDK natively: JSON, objects, and the script of unit tests. Each test is named after the fact that it states. */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend.h"
#include "windlass.h"
#include "windlass_test.h"

static const windlass_kind MAPS = {"", "v1", "ConfigMap"};
static const windlass_key A = {"default", "a"};

/* The function of the guest: each test has its own. */
static windlass_result (*body)(const windlass_request *request, windlass_cluster *cluster);

static windlass_result describe(windlass_description *description) {
    description->title = "does what a test says";
    windlass_add_watch(description, (windlass_watch){.kind = {"", "v1", "Secret"}, .enqueue = WINDLASS_CONTROLLER_OWNER});
    windlass_add_watch(description, (windlass_watch){.kind = MAPS, .changes = WINDLASS_LABELS | WINDLASS_STATUS});
    windlass_add_index(description, (windlass_index){.kind = MAPS, .name = "color", .path = "data.color"});
    description->options = json_set(json_object(), "later", json_string("yes"));
    return windlass_done();
}

static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    return body(request, cluster);
}

static windlass_result map(windlass_cluster *cluster, windlass_kind kind, const json *objects, windlass_requests *requests) {
    assert(strcmp(kind.kind, "ConfigMap") == 0);
    json_each(object, objects) {
        windlass_add_request(requests, (windlass_request){windlass_name(cluster), windlass_key_of(object)});
    }
    return windlass_done();
}

WINDLASS_MAPPED_RECONCILER(describe, reconcile, map)

/* ---- JSON ---- */

static void what_is_read_is_written_as_it_was(void) {
    const char *text =
        "{\"a\":[1,-2.50,1e+9,5000000000,true,false,null,{}],\"b\":\"\\\"\\\\ \\u0001 \xc5\xbc \xf0\x9f\x8d\x90\",\"c\":[]}";
    assert(strcmp(json_print(json_literal(text)), text) == 0);
    const char *escapes = "\"\\u00e9\\ud83c\\udf50\\/\\b\\f\\n\\r\\t\"";
    assert(strcmp(json_text(json_literal(escapes)), "\xc3\xa9\xf0\x9f\x8d\x90/\b\f\n\r\t") == 0);
}

static void what_is_no_json_is_refused_with_the_reason(void) {
    const char *const wrong[] = {"",     "{",  "[1,]",      "{\"a\"}",     "{\"a\":1,}",      "01",     "1.",    "1e",
                                 "nul",  "\"", "\"\\x\"",   "\"\\ud800\"", "\"\\udc00\"",     "\"\n\"", "[1] 2", "{1:2}",
                                 "\"\\", "-",  "[\"a\" 1]", "\"\\u12\"",   "{\"\\u0000\":1}", "+1",     "'a'"};
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        const char *why = NULL;
        assert(json_parse(wrong[at], strlen(wrong[at]), &why) == NULL);
        assert(strstr(why, "at byte") != NULL);
    }
    char deep[400];
    memset(deep, '[', 200);
    memset(deep + 200, ']', 200);
    assert(json_parse(deep, sizeof deep, NULL) == NULL);
    assert(json_parse(deep + 100, 200, NULL) != NULL);
}

static void a_tree_is_read_by_pointers(void) {
    json *value = json_literal("{\"a\":{\"x/y\":[10,{\"b\":\"c\"}]},\"n\":7.5}");
    assert(strcmp(json_text_at(value, "/a/x~1y/1/b"), "c") == 0);
    assert(json_integer(json_at(value, "/a/x~1y/0"), -1) == 10);
    assert(json_at(value, "/a/x~1y/2") == NULL && json_at(value, "/nothing/here") == NULL);
    assert(json_integer(json_get(value, "n"), -1) == -1 && json_text(json_get(value, "n")) == NULL);
    assert(json_at(NULL, "/a") == NULL && json_count(NULL) == 0);
}

static void a_tree_is_changed_in_place(void) {
    json *value = json_literal("{\"a\":1,\"b\":2,\"c\":3}");
    json_set(value, "b", json_string("two"));
    json_remove(value, "c");
    json_remove(value, "nothing");
    json_set_at(value, "/d/e", json_bool(true));
    json_set_at(value, "/d/f", json_get(value, "a"));
    json_set_at(value, "/a", json_null());
    assert(strcmp(json_print(value), "{\"a\":null,\"b\":\"two\",\"d\":{\"e\":true,\"f\":1}}") == 0);
    json_remove(value, "a");
    json_remove(value, "d");
    json_set(value, "z", json_append(json_append(json_array(), json_number(-3)), json_get(value, "b")));
    assert(strcmp(json_print(value), "{\"b\":\"two\",\"z\":[-3,\"two\"]}") == 0);
}

static void equality_knows_no_order_of_members(void) {
    assert(json_same(json_literal("{\"a\":1,\"b\":[1,2]}"), json_literal("{\"b\":[1,2],\"a\":1}")));
    assert(!json_same(json_literal("[1,2]"), json_literal("[2,1]")));
    assert(!json_same(json_literal("{\"a\":1}"), json_literal("{\"b\":1}")));
    assert(!json_same(json_literal("\"a\""), json_literal("\"b\"")));
    assert(!json_same(json_literal("true"), json_literal("false")) && !json_same(json_null(), NULL));
}

static void of_members_that_come_again_the_last_value_stands_in_the_first_place(void) {
    const char *text = "{\"a\":1,\"b\":2,\"a\":[3],\"c\":4,\"b\":{\"x\":1,\"x\":2},\"c\":5,\"a\":6,\"d\":7,\"c\":8}";
    json *value = json_literal(text);
    assert(strcmp(json_print(value), "{\"a\":6,\"b\":{\"x\":2},\"c\":8,\"d\":7}") == 0);
    assert(strcmp(json_print(json_set(value, "e", json_null())), "{\"a\":6,\"b\":{\"x\":2},\"c\":8,\"d\":7,\"e\":null}") == 0);
    assert(strcmp(json_print(json_string(json_text_at(value, "/none"))), "null") == 0);
}

static void an_object_of_many_members_is_read_in_no_time(void) {
    enum { MANY = 300000, LONGEST = 16 };
    char *text = malloc((size_t)MANY * LONGEST), *to = text;
    assert(text != NULL);
    for (int at = 0; at < MANY; at++) {
        to += sprintf(to, "%c\"k%d\":%d", at == 0 ? '{' : ',', at % (MANY - 1), at % 10);
    }
    *to++ = '}';
    alarm(30); /* each member compared with each other takes minutes */
    json *value = json_parse(text, (size_t)(to - text), NULL);
    alarm(0);
    assert(json_count(value) == MANY - 1 && json_integer(value->first, -1) == (MANY - 1) % 10);
    free(text);
}

static void a_number_beyond_a_long_long_is_none(void) {
    assert(json_integer(json_literal("9223372036854775807"), -1) == 9223372036854775807);
    assert(json_integer(json_literal("9223372036854775808"), -1) == -1);
    assert(json_integer(json_literal("-9223372036854775809"), -1) == -1);
}

/* ---- Objects ---- */

static void an_owner_is_found_again_as_the_controller(void) {
    json *owner = windlass_object((windlass_kind){"apps", "v1", "Deployment"}, A);
    assert(strcmp(json_text_at(owner, "/apiVersion"), "apps/v1") == 0);
    json_set_at(owner, "/metadata/uid", json_string("u"));
    json *child = windlass_object(MAPS, windlass_sibling(A, "%s-%d", A.name, 2));
    assert(windlass_controller(child) == NULL && !windlass_is_deleting(child));
    assert(windlass_set_controller(child, owner) == NULL);
    assert(strcmp(json_text_at(windlass_controller(child), "/uid"), "u") == 0);
    assert(strcmp(windlass_key_text(windlass_key_of(child)), "default/a-2") == 0);
}

static void a_controller_is_set_beside_other_owners_replaces_itself_and_refuses_another(void) {
    json *child =
        json_literal("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"b\",\"namespace\":\"default\","
                     "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"other\"}]}}");
    json *owner = windlass_object(MAPS, A);
    json_set_at(owner, "/metadata/uid", json_string("u"));
    for (int times = 0; times < 2; times++) {
        assert(windlass_set_controller(child, owner) == NULL);
        json *references = json_at(child, "/metadata/ownerReferences");
        assert(json_count(references) == 2 && strcmp(json_text_at(references, "/0/name"), "p") == 0);
        assert(json_is_true(json_at(references, "/1/controller")) && json_is_true(json_at(references, "/1/blockOwnerDeletion")));
    }
    json_set_at(owner, "/metadata/uid", json_string("v"));
    const windlass_error *taken = windlass_set_controller(child, owner);
    assert(taken->code == WINDLASS_CONFLICT);
    assert(strcmp(taken->message, "ConfigMap default/b has a controller already: ConfigMap a") == 0);
    assert(json_count(json_at(child, "/metadata/ownerReferences")) == 2);
}

/* ---- Values that are passed to the host and from it ---- */

static void what_is_no_utf8_becomes_replacement_characters(void) {
    const char *const texts[][2] = {
        {"", ""},
        {"\xc5\xbc\xc3\xb3\xc5\x82ty \xf0\x9f\x8d\x90 \xed\x9f\xbf \xf4\x8f\xbf\xbf",
         "\xc5\xbc\xc3\xb3\xc5\x82ty \xf0\x9f\x8d\x90 \xed\x9f\xbf \xf4\x8f\xbf\xbf"},
        {"half \xf0", "half \xef\xbf\xbd"},
        {"\xc5"
         "a\xff",
         "\xef\xbf\xbd"
         "a\xef\xbf\xbd"},
        /* An overlong form, a surrogate, and a code above the last character. */
        {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t at = 0; at < sizeof texts / sizeof *texts; at++) {
        assert(strcmp(well_formed(texts[at][0]), texts[at][1]) == 0);
    }
}

static void an_object_that_cannot_be_read_is_an_error_that_names_it(void) {
    const char *odd =
        "{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"namespace\":\"default\"},\"data\":{\"x\\u0000\":1}}";
    windlass_error *error = NULL;
    assert(json_of_host(odd, strlen(odd), &error) == NULL);
    assert(error->code == WINDLASS_INVALID);
    assert(strncmp(error->message, "cannot read ConfigMap default/a: a name with \\u0000, at byte ", 59) == 0);
    char deep[200];
    memset(deep, '[', sizeof deep);
    assert(json_of_host(deep, sizeof deep, &error) == NULL);
    assert(strcmp(error->message, "cannot read an object: too many values within values, at byte 128") == 0);
    assert(json_of_host("{}", 2, &error) != NULL);
}

static void a_delay_beyond_the_contract_is_the_longest_one(void) {
    assert(windlass_requeue_after(1500).after_ms == 1500);
    assert(windlass_requeue_after(5000000000).after_ms == UINT32_MAX);
}

/* ---- Calls ---- */

static json *config_map(const char *name) {
    return windlass_object(MAPS, windlass_sibling(A, "%s", name));
}

static windlass_result walks(const windlass_request *request, windlass_cluster *cluster) {
    json *object = config_map("x");
    assert(strcmp(request->cluster, "alpha") == 0 && strcmp(windlass_name(cluster), "alpha") == 0);
    WINDLASS_TRY(windlass_get(cluster, MAPS, request->key, &(windlass_get_options){.live = true}, &object));
    assert(object == NULL);
    json *items;
    WINDLASS_TRY(windlass_list_all(cluster, MAPS, &(windlass_list_options){.labels = "x", .limit = 1}, &items));
    assert(json_count(items) == 3);
    bool deleted = true;
    WINDLASS_TRY(windlass_delete(cluster, MAPS, request->key, NULL, &deleted));
    assert(!deleted);
    windlass_event(cluster, config_map("a"), "Seen", "seen %d times", 2);
    windlass_record_event(cluster, (windlass_event_record){config_map("a"), true, "Odd", "Watch", "look"});
    windlass_info("seen", "times", "2", NULL);
    assert(strcmp(json_text_at(windlass_config(), "/color"), "red") == 0 && strlen(windlass_now()) == 24);
    WINDLASS_TRY(windlass_apply(cluster, config_map("a"), NULL, NULL));
    return windlass_done();
}

static windlass_page page(const char *name, const char *other, const char *token) {
    json *items = json_append(json_array(), config_map(name));
    if (other != NULL) {
        json_append(items, config_map(other));
    }
    return (windlass_page){.items = items, .continue_token = token};
}

static void calls_are_answered_in_their_order(void) {
    windlass_script *script = windlass_script_new("alpha");
    windlass_script_config(script, "{\"color\":\"red\"}");
    windlass_operation list = {.verb = WINDLASS_OP_LIST, .kind = MAPS, .list = {.labels = "x", .limit = 1}};
    windlass_expect(script, (windlass_operation){.verb = WINDLASS_OP_GET, .kind = MAPS, .key = A, .get = {.live = true}},
                    (windlass_reply){0});
    windlass_expect(script, list, (windlass_reply){.page = page("b", NULL, "more")});
    list.list.continue_token = "more";
    windlass_expect(script, list, (windlass_reply){.page = page("c", "d", NULL)});
    windlass_expect(script, (windlass_operation){.verb = WINDLASS_OP_DELETE, .kind = MAPS, .key = A},
                    (windlass_reply){.error = windlass_error_new(WINDLASS_NOT_FOUND, 404, "none")});
    windlass_expect(script, (windlass_operation){.verb = WINDLASS_OP_APPLY, .object = config_map("a")},
                    (windlass_reply){.error = windlass_error_new(WINDLASS_CONFLICT, 409, "owned by kubectl")});
    body = walks;
    windlass_result result = windlass_script_reconcile(script, A);
    assert(result.outcome == WINDLASS_RESULT_RETRY && strcmp(result.message, "conflict: owned by kubectl") == 0);
    assert(strcmp(json_text_at(windlass_script_events(script), "/0/note"), "seen 2 times") == 0);
    assert(strcmp(json_text_at(windlass_script_events(script), "/0/action"), "Reconcile") == 0);
    assert(strcmp(json_text_at(windlass_script_events(script), "/1/action"), "Watch") == 0);
    assert(strcmp(json_text_at(windlass_script_events(script), "/1/type"), "Warning") == 0);
    assert(strcmp(json_text_at(windlass_script_logs(script), "/0/fields/times"), "2") == 0);
}

static windlass_result reaches_out(const windlass_request *request, windlass_cluster *cluster) {
    (void)request, (void)cluster;
    windlass_cluster_info *known;
    size_t count;
    WINDLASS_TRY(windlass_clusters("tier=edge", &known, &count));
    assert(count == 1 && strcmp(known[0].name, "beta") == 0);
    windlass_cluster *beta, *gamma;
    WINDLASS_TRY(windlass_open("beta", &beta));
    json *object;
    WINDLASS_TRY(windlass_get(beta, MAPS, A, NULL, &object));
    const char *const names[] = {"beta", "alpha"};
    windlass_operation get = {.verb = WINDLASS_OP_GET, .kind = MAPS, .key = A};
    windlass_reply *replies = windlass_fleet_batch(names, (windlass_operation[]){get, get}, 2);
    assert(replies[0].object != NULL && replies[1].error->code == WINDLASS_DENIED);
    replies = windlass_batch(cluster, &get, 1);
    assert(replies[0].object == NULL && replies[0].error == NULL);
    WINDLASS_TRY(windlass_open("gamma", &gamma));
    return windlass_requeue_after(5);
}

static void other_clusters_are_scripted_too(void) {
    windlass_script *script = windlass_script_new("alpha");
    windlass_cluster_info beta = {.name = "beta", .ready = true};
    windlass_operation get = {.verb = WINDLASS_OP_GET, .kind = MAPS, .key = A};
    windlass_error *gone = windlass_error_new(WINDLASS_CLUSTER_GONE, 0, "left");
    windlass_reply replies[] = {{.object = config_map("a")}, {.error = windlass_error_new(WINDLASS_DENIED, 0, "no rule")}};
    windlass_expect_clusters(script, "tier=edge", &beta, 1);
    windlass_expect_open(script, "beta", NULL);
    windlass_expect_in(script, "beta", get, (windlass_reply){.object = config_map("a")});
    windlass_expect_fleet_batch(script, (const char *const[]){"beta", "alpha"}, (windlass_operation[]){get, get}, replies, 2);
    windlass_expect_batch(script, &get, &(windlass_reply){0}, 1);
    windlass_expect_open(script, "gamma", gone);
    body = reaches_out;
    windlass_result result = windlass_script_reconcile(script, A);
    assert(result.outcome == WINDLASS_RESULT_RETRY && strcmp(result.message, "cluster-gone: left") == 0);
}

static void a_description_names_its_primary_kind(void) {
    windlass_description description;
    assert(windlass_script_describe(windlass_script_new("alpha"), &description).outcome == WINDLASS_RESULT_DONE);
    assert(description.watch_count == 2 && description.index_count == 1);
    assert(strcmp(description.primary.kind, "ConfigMap") == 0);
    assert(strcmp(json_text_at(description.options, "/later"), "yes") == 0);
}

static void a_map_function_answers_requests(void) {
    json *objects = json_array();
    for (int at = 0; at < 5; at++) {
        json_append(objects, config_map(windlass_format("o%d", at)));
    }
    windlass_requests requests;
    windlass_script_map(windlass_script_new("alpha"), MAPS, objects, &requests);
    assert(requests.count == 5 && strcmp(requests.items[4].key.name, "o4") == 0);
}

/* Whether the guest ends its process, when a script runs it in a process of its own. */
static bool ends_the_program(bool expects_another) {
    fflush(NULL);
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        freopen("/dev/null", "w", stderr);
        windlass_script *script = windlass_script_new("alpha");
        windlass_operation get = {.verb = WINDLASS_OP_GET, .kind = MAPS, .key = A};
        if (expects_another) {
            windlass_expect(script, get, (windlass_reply){0});
        }
        windlass_script_reconcile(script, A);
        _exit(0);
    }
    int status = 0;
    assert(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static windlass_result reads(const windlass_request *request, windlass_cluster *cluster) {
    json *object;
    WINDLASS_TRY(windlass_get(cluster, MAPS, request->key, NULL, &object));
    return windlass_done();
}

static windlass_result reads_live(const windlass_request *request, windlass_cluster *cluster) {
    json *object;
    WINDLASS_TRY(windlass_get(cluster, MAPS, request->key, &(windlass_get_options){.live = true}, &object));
    return windlass_done();
}

static windlass_result does_nothing(const windlass_request *request, windlass_cluster *cluster) {
    (void)request, (void)cluster;
    return windlass_done();
}

static void what_is_not_expected_and_what_is_left_over_ends_the_program(void) {
    body = reads;
    assert(!ends_the_program(true) && ends_the_program(false));
    body = reads_live;
    assert(ends_the_program(true));
    body = does_nothing;
    assert(ends_the_program(true) && !ends_the_program(false));
}

int main(void) {
    what_is_read_is_written_as_it_was();
    what_is_no_json_is_refused_with_the_reason();
    a_tree_is_read_by_pointers();
    a_tree_is_changed_in_place();
    equality_knows_no_order_of_members();
    of_members_that_come_again_the_last_value_stands_in_the_first_place();
    an_object_of_many_members_is_read_in_no_time();
    a_number_beyond_a_long_long_is_none();
    an_owner_is_found_again_as_the_controller();
    a_controller_is_set_beside_other_owners_replaces_itself_and_refuses_another();
    what_is_no_utf8_becomes_replacement_characters();
    an_object_that_cannot_be_read_is_an_error_that_names_it();
    a_delay_beyond_the_contract_is_the_longest_one();
    calls_are_answered_in_their_order();
    other_clusters_are_scripted_too();
    a_description_names_its_primary_kind();
    a_map_function_answers_requests();
    what_is_not_expected_and_what_is_left_over_ends_the_program();
    puts("18 tests of the SDK in C passed");
    return 0;
}
