/* The cases that every SDK passes: guest-sdk/spec. Usage: spec_test FILE… A wrong call ends the program and prints it. */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "windlass.h"
#include "windlass_test.h"

/* The case that runs, its host, and what it returned. */
static const json *running_case;
static windlass_script *running_script;
static json *returned;
static windlass_error *failed;

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
    return slash == NULL ? (windlass_key){NULL, text}
                         : (windlass_key){windlass_format("%.*s", (int)(slash - text), text), slash + 1};
}

static const char *field(const json *of, const char *name) {
    return json_text(json_get(of, name));
}

static windlass_operation operation_of(const json *call) {
    static const char *const verbs[] = {"get", "list", "create", "update", "patch", "apply", "delete"};
    windlass_operation operation = {0};
    while (strcmp(verbs[operation.verb], field(call, "call")) != 0) {
        operation.verb++;
    }
    if (field(call, "kind") != NULL) {
        operation.kind = kind_from(field(call, "kind"));
    }
    if (field(call, "key") != NULL) {
        operation.key = key_from(field(call, "key"));
    }
    operation.object = json_get(call, operation.verb == WINDLASS_OP_PATCH ? "patch" : "object");
    operation.write.subresource = field(call, "subresource");
    operation.write.force = json_is_true(json_get(call, "force"));
    operation.get.live = json_is_true(json_get(call, "live"));
    operation.list.ns = field(call, "namespace");
    operation.list.index = json_text_at(call, "/index/0");
    operation.list.value = json_text_at(call, "/index/1");
    operation.list.continue_token = field(call, "continueToken");
    operation.deletion.uid = field(call, "uid");
    operation.deletion.propagation = field(call, "propagation") == NULL ? WINDLASS_DEFAULT_PROPAGATION : WINDLASS_BACKGROUND;
    operation.write.dry_run = json_is_true(json_get(call, "dryRun"));
    return operation;
}

static windlass_error *error_of(const json *fails) {
    windlass_code code = WINDLASS_NOT_FOUND;
    while (strcmp(windlass_code_name(code), field(fails, "code")) != 0) {
        code++;
    }
    windlass_error *error = windlass_error_new(code, (int)json_integer(json_get(fails, "status"), 0), field(fails, "message"));
    error->details = json_get(fails, "details");
    return error;
}

static windlass_reply reply_of(const json *call) {
    const json *answer = json_get(call, "answer"), *fails = json_get(call, "fails");
    if (fails != NULL) {
        return (windlass_reply){.error = error_of(fails)};
    }
    if (json_get(answer, "items") != NULL) {
        return (windlass_reply){.page = {json_get(answer, "items"), field(answer, "continueToken"), "1"}};
    }
    if (answer == NULL) {
        answer = json_get(call, "object"); /* what was sent */
    }
    return (windlass_reply){.object = answer == NULL || answer->type == JSON_NULL ? NULL : json_copy(answer)};
}

/* Expects the calls of the case from this one on; a clean-up expects those after it. */
static void expect_from(const json *call) {
    for (; call != NULL; call = call->next) {
        if (strcmp(field(call, "call"), "cleanup") == 0) {
            return;
        }
        const json *batch = json_get(call, "calls");
        if (batch == NULL) {
            windlass_expect(running_script, operation_of(call), reply_of(call));
            continue;
        }
        size_t count = 0;
        windlass_operation *operations = windlass_alloc(json_count(batch) * sizeof *operations);
        windlass_reply *replies = windlass_alloc(json_count(batch) * sizeof *replies);
        json_each(each, batch) {
            operations[count] = operation_of(each);
            replies[count++] = reply_of(each);
        }
        windlass_expect_batch(running_script, operations, replies, count);
    }
}

static windlass_result cleanup(windlass_cluster *cluster, const json *primary, void *context) {
    (void)cluster;
    const json *how = context, *call = json_get(running_case, "calls")->first;
    assert(windlass_is_deleting(primary) && strcmp(field(call, "call"), "cleanup") == 0);
    expect_from(call->next);
    if (json_get(how, "notReady") != NULL) {
        const json *waits = json_get(how, "notReady");
        return windlass_not_ready(WINDLASS_SECONDS(json_integer(json_get(waits, "seconds"), 0)), "%s", field(waits, "message"));
    }
    return json_get(how, "fails") == NULL ? windlass_done() : windlass_failed(error_of(json_get(how, "fails")));
}

static const char *ready(const json *object, void *context) {
    (void)context;
    const char *why = field(json_at(running_case, "/with/ready"), field(object, "kind"));
    return why != NULL ? why : windlass_readiness(object);
}

static void set_fields(json *object, void *context) {
    json_each(value, (const json *)context) {
        json_set(object, value->name, json_copy(value));
    }
}

static json *or_null(json *value) {
    return value == NULL ? json_null() : json_copy(value);
}

static json *text_or_null(const char *text) {
    return text == NULL ? json_null() : json_string(text);
}

/* The result of a write, or its error. */
static void put(windlass_error *error, const windlass_written *written) {
    static const char *const effects[] = {"created", "updated", "unchanged"};
    failed = error;
    if (error == NULL) {
        returned = json_set(json_object(), "effect", json_string(effects[written->effect]));
        json_set(returned, "object", json_copy(written->object));
    }
}

static windlass_kind *kinds_of(const json *texts) {
    size_t count = 0;
    windlass_kind *kinds = windlass_alloc((json_count(texts) + 1) * sizeof *kinds);
    json_each(kind, texts) {
        kinds[count++] = kind_from(json_text(kind));
    }
    return kinds;
}

static windlass_dependents dependents_of(const json *with) {
    const json *kinds = json_get(with, "kinds"), *recreate = json_get(with, "recreate");
    return (windlass_dependents){
        .kinds = kinds_of(kinds),
        .kind_count = json_count(kinds),
        .recreate = kinds_of(recreate),
        .recreate_count = json_count(recreate),
        .finalizer = field(with, "finalizer"),
        .ready = json_get(with, "ready") == NULL ? NULL : ready,
        .recheck_ms = WINDLASS_SECONDS(json_integer(json_get(with, "recheckSeconds"), 0)),
        .status = json_get(with, "status"),
        .cleanup = json_get(with, "cleanup") == NULL ? NULL : cleanup,
        .context = json_get(with, "cleanup"),
    };
}

static void describe_dependents(const json *with) {
    windlass_description description = {0};
    windlass_dependents dependents = dependents_of(with);
    windlass_add_dependents(&description, &dependents);
    json *watches = json_array(), *indexes = json_array();
    for (size_t at = 0; at < description.watch_count; at++) {
        assert(description.watches[at].enqueue == WINDLASS_CONTROLLER_OWNER);
        windlass_kind kind = description.watches[at].kind;
        const char *group = kind.group[0] == '\0' ? "" : windlass_format("%s/", kind.group);
        json *text = json_string(windlass_format("%s%s/%s", group, kind.version, kind.kind));
        json_append(watches, json_set(json_set(json_object(), "kind", text), "enqueue", json_string("controller-owner")));
        json *index = json_set(json_object(), "kind", text);
        json_set(index, "name", json_string(description.indexes[at].name));
        json_append(indexes, json_set(index, "path", json_string(description.indexes[at].path)));
    }
    returned = json_set(json_set(json_object(), "watches", watches), "indexes", indexes);
}

static windlass_error *list_names(windlass_cluster *cluster, const json *with) {
    windlass_list_options options = {.ns = field(with, "namespace")};
    windlass_iterator iterator = windlass_iterate(cluster, kind_from(field(with, "kind")), &options);
    returned = json_array();
    while ((long long)json_count(returned) != json_integer(json_get(with, "take"), -1)) {
        json *object;
        windlass_error *error = windlass_next(&iterator, &object);
        if (error != NULL || object == NULL) {
            return error;
        }
        json_append(returned, json_string(windlass_key_of(object).name));
    }
    return NULL;
}

static windlass_result describe(windlass_description *description) {
    description->title = "does what a case says";
    return windlass_done();
}

static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    (void)request;
    const json *with = json_get(running_case, "with");
    const char *what = field(running_case, "do"), *finalizer = field(with, "finalizer");
    json *object = json_get(with, "object"), *owner = json_get(with, "owner");
    windlass_written written = {0};
    if (strcmp(what, "condition") == 0) {
        returned = or_null(windlass_get_condition(object, field(with, "type")));
    } else if (strcmp(what, "setCondition") == 0) {
        const json *given = json_get(with, "condition");
        windlass_condition condition = {field(given, "type"), field(given, "status"), field(given, "reason"),
                                        field(given, "message"), json_integer(json_get(given, "observedGeneration"), 0)};
        returned = json_bool(windlass_set_condition(object, condition));
    } else if (strcmp(what, "isDeleting") == 0) {
        returned = json_bool(windlass_is_deleting(object));
    } else if (strcmp(what, "hasFinalizer") == 0) {
        returned = json_bool(windlass_has_finalizer(object, finalizer));
    } else if (strcmp(what, "ensureFinalizer") == 0) {
        put(windlass_ensure_finalizer(cluster, object, finalizer, &written), &written);
    } else if (strcmp(what, "removeFinalizer") == 0) {
        put(windlass_remove_finalizer(cluster, object, finalizer, &written), &written);
    } else if (strcmp(what, "ownerReference") == 0) {
        returned = windlass_owner_reference(owner);
    } else if (strcmp(what, "controllerReference") == 0) {
        returned = windlass_controller_reference(owner);
    } else if (strcmp(what, "setOwner") == 0) {
        failed = windlass_set_owner(object, owner);
    } else if (strcmp(what, "setController") == 0) {
        failed = windlass_set_controller(object, owner);
    } else if (strcmp(what, "controllerOf") == 0) {
        returned = or_null(windlass_controller(object));
    } else if (strcmp(what, "ensure") == 0) {
        put(windlass_ensure(cluster, object, &written), &written);
    } else if (strcmp(what, "createOrUpdate") == 0) {
        put(windlass_create_or_update(cluster, kind_from(field(with, "kind")), key_from(field(with, "key")), set_fields,
                                      json_get(with, "set"), &written),
            &written);
    } else if (strcmp(what, "setStatus") == 0) {
        put(windlass_set_status(cluster, kind_from(field(with, "kind")), key_from(field(with, "key")), json_get(with, "status"),
                                &written),
            &written);
    } else if (strcmp(what, "event") == 0) {
        void (*record)(windlass_cluster *, const json *, const char *, const char *, ...) =
            json_is_true(json_get(with, "warning")) ? windlass_warning : windlass_event;
        record(cluster, json_get(with, "about"), field(with, "reason"), "%s", field(with, "note"));
    } else if (strcmp(what, "listAll") == 0) {
        failed = list_names(cluster, with);
    } else if (strcmp(what, "requeueAfter") == 0) {
        return windlass_requeue_after(WINDLASS_SECONDS(json_integer(json_get(with, "seconds"), 0)));
    } else if (strcmp(what, "notReady") == 0) {
        return windlass_not_ready(WINDLASS_SECONDS(json_integer(json_get(with, "seconds"), 0)), "%s", field(with, "message"));
    } else if (strcmp(what, "readiness") == 0) {
        returned = text_or_null(windlass_readiness(object));
    } else if (strcmp(what, "fingerprint") == 0) {
        returned = json_string(sdk_fingerprint(json_get(with, "value")));
    } else if (strcmp(what, "dependents") == 0) {
        windlass_dependents dependents = dependents_of(with);
        return windlass_reconcile_dependents(cluster, json_get(with, "primary"), json_get(with, "desired"), &dependents);
    } else {
        assert(strcmp(what, "describeDependents") == 0);
        describe_dependents(with);
    }
    return windlass_done();
}

WINDLASS_RECONCILER(describe, reconcile)

static void same(const char *what, const json *got, const json *expected) {
    if (got == NULL || !json_same(got, expected)) {
        fprintf(stderr, "%s: %s: got\n  %s\ninstead of\n  %s\n", field(running_case, "name"), what,
                got == NULL ? "nothing" : json_print(got), json_print(expected));
        exit(1);
    }
}

/* Events as the cases write them. */
static json *events_of(const windlass_script *script) {
    json *events = json_array();
    json_each(each, windlass_script_events(script)) {
        json *event = json_copy(each);
        json_set(event, "warning", json_bool(strcmp(field(each, "type"), "Warning") == 0));
        json_set(event, "key", json_string(field(each, "about")));
        json_remove(event, "cluster");
        json_remove(event, "type");
        json_remove(event, "about");
        json_append(events, event);
    }
    return events;
}

static void run(const json *spec) {
    running_case = json_copy(spec);
    running_script = windlass_script_new("alpha");
    returned = NULL;
    failed = NULL;
    if (field(spec, "now") != NULL) {
        windlass_script_now(running_script, field(spec, "now"));
    }
    fprintf(stderr, "%s\n", field(spec, "name"));
    expect_from(json_count(json_get(running_case, "calls")) == 0 ? NULL : json_get(running_case, "calls")->first);
    windlass_result result = windlass_script_reconcile(running_script, (windlass_key){NULL, "a"});
    if (failed != NULL) {
        result = windlass_failed(failed);
    }
    const json *fails = json_get(spec, "fails"), *returns = json_get(spec, "returns"), *object = json_get(spec, "object");
    if (fails != NULL) {
        const char *message = windlass_format("%s: %s", field(fails, "code"), field(fails, "message"));
        same("failure", json_string(result.message == NULL ? "none" : result.message), json_string(message));
    } else {
        assert(result.outcome == WINDLASS_RESULT_DONE || result.outcome == WINDLASS_RESULT_REQUEUE);
    }
    if (json_get(returns, "requeueAfterMs") != NULL) {
        assert(result.outcome == WINDLASS_RESULT_REQUEUE);
        returned = json_set(json_object(), "requeueAfterMs", json_number(result.after_ms));
    } else if (json_get(returns, "done") != NULL) {
        assert(result.outcome == WINDLASS_RESULT_DONE);
        returned = json_set(json_object(), "done", json_bool(true));
    }
    if (returns != NULL) {
        same("returned", returned, returns);
    }
    if (object != NULL) {
        same("object", json_at(running_case, "/with/object"), object);
    }
    const json *none = json_array(), *events = json_get(spec, "events"), *logs = json_get(spec, "logs");
    same("events", events_of(running_script), events == NULL ? none : events);
    same("logs", windlass_script_logs(running_script), logs == NULL ? none : logs);
}

static json *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    assert(file != NULL && fseek(file, 0, SEEK_END) == 0);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(length);
    assert(text != NULL && fread(text, 1, length, file) == length);
    fclose(file);
    const char *why = NULL;
    json *value = json_parse(text, length, &why);
    if (value == NULL) {
        fprintf(stderr, "%s: %s\n", path, why);
        exit(1);
    }
    return value;
}

int main(int count, char **paths) {
    size_t cases = 0;
    for (int at = 1; at < count; at++) {
        json_each(each, json_get(read_file(paths[at]), "cases")) {
            run(each);
            cases++;
        }
    }
    assert(cases > 100);
    printf("%zu cases of the specification passed in C\n", cases);
    return 0;
}
