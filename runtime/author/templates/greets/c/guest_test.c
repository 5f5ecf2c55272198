/* Tests of the guest, against a script of the calls that it makes: `make test`. */

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <windlass_test.h>

static const windlass_kind CONFIG_MAP = {"", "v1", "ConfigMap"};
static const windlass_key CREW = {"default", "crew"}, CREW_GREETING = {"default", "crew-greeting"};

static json *asking(void) {
    json *object = windlass_object(CONFIG_MAP, CREW);
    json_set_at(object, "/metadata/uid", json_string("1"));
    json_set_at(object, "/metadata/labels/hello.windlass.dev~1greet", json_string("world"));
    return object;
}

static json *greeting(void) {
    json *object = windlass_object(CONFIG_MAP, CREW_GREETING);
    windlass_set_controller(object, asking());
    return json_set_at(object, "/data/greeting", json_string("hello, world, from alpha"));
}

static windlass_operation get(windlass_key key) {
    return (windlass_operation){.verb = WINDLASS_OP_GET, .kind = CONFIG_MAP, .key = key};
}

static windlass_operation apply(void) {
    return (windlass_operation){.verb = WINDLASS_OP_APPLY, .object = greeting(), .write = {.force = true}};
}

static void who_asks_is_greeted(void) {
    windlass_script *script = windlass_script_new("alpha");
    windlass_expect(script, get(CREW), (windlass_reply){.object = asking()});
    windlass_expect(script, get(CREW_GREETING), (windlass_reply){0});
    windlass_expect(script, apply(), (windlass_reply){.object = greeting()});
    assert(windlass_script_reconcile(script, CREW).outcome == WINDLASS_RESULT_DONE);
    assert(strcmp(json_text_at(windlass_script_events(script), "/0/reason"), "Greeted") == 0);
}

static void who_is_greeted_already_is_left_alone(void) {
    windlass_script *script = windlass_script_new("alpha");
    windlass_expect(script, get(CREW), (windlass_reply){.object = asking()});
    windlass_expect(script, get(CREW_GREETING), (windlass_reply){.object = greeting()});
    assert(windlass_script_reconcile(script, CREW).outcome == WINDLASS_RESULT_DONE);
}

static void without_the_label_nobody_is_greeted(void) {
    windlass_script *script = windlass_script_new("alpha");
    windlass_expect(script, get(CREW), (windlass_reply){.object = windlass_object(CONFIG_MAP, CREW)});
    assert(windlass_script_reconcile(script, CREW).outcome == WINDLASS_RESULT_DONE);
}

static void a_failed_write_is_tried_again(void) {
    windlass_script *script = windlass_script_new("alpha");
    windlass_expect(script, get(CREW), (windlass_reply){.object = asking()});
    windlass_expect(script, get(CREW_GREETING), (windlass_reply){0});
    windlass_expect(script, apply(), (windlass_reply){.error = windlass_error_new(WINDLASS_UNAVAILABLE, 503, "no server")});
    assert(windlass_script_reconcile(script, CREW).outcome == WINDLASS_RESULT_RETRY);
}

int main(void) {
    who_asks_is_greeted();
    who_is_greeted_already_is_left_alone();
    without_the_label_nobody_is_greeted();
    a_failed_write_is_tried_again();
    puts("4 tests passed");
    return 0;
}
