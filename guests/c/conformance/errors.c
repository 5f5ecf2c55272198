/* Cases about calls that fail, and about how a reconcile ends. */

#include <string.h>

#include "words.h"

static windlass_error *read_live(const scene *scene, const char *name) {
    json *found;
    return windlass_get(scene->cluster, CONFIG_MAP, at(scene, name), &(windlass_get_options){.live = true}, &found);
}

/* Errors of a server, errors of the host, and answers that cannot be read. */
windlass_result codes(const scene *scene) {
    const char *const answers[] = {"400", "401", "403", "409", "410", "418", "429", "500", "503", "504", "cut", "endless"};
    for (size_t at = 0; at < sizeof answers / sizeof *answers; at++) {
        windlass_error *error = read_live(scene, windlass_format("answers-%s", answers[at]));
        if (error != NULL) {
            refused(answers[at], error);
        }
    }
    const windlass_kind kinds[] = {{"", "v1", "Pod"}, {"apps", "v1", "Submarine"}};
    for (size_t kind = 0; kind < 2; kind++) {
        json *found;
        windlass_error *error = windlass_get(scene->cluster, kinds[kind], at(scene, "nothing"), NULL, &found);
        if (error != NULL) {
            refused(kinds[kind].kind, error);
        }
    }
    return windlass_done();
}

/* More operations than a batch may have. */
windlass_result limits(const scene *scene) {
    windlass_operation operations[21];
    for (size_t one = 0; one < 21; one++) {
        operations[one] = (windlass_operation){.verb = WINDLASS_OP_GET, .kind = CONFIG_MAP, .key = at(scene, "apple")};
    }
    windlass_reply *replies = windlass_batch(scene->cluster, operations, 21);
    windlass_info("limits", "replies", number(21), NULL);
    if (replies[0].error != NULL) {
        refused("too many", replies[0].error);
    }
    return windlass_done();
}

/* A call that the host ends at its deadline. */
windlass_result cancelled(const scene *scene) {
    windlass_error *error = read_live(scene, "answers-never");
    if (error != NULL) {
        refused("cancelled", error);
    }
    return windlass_done();
}

windlass_result outcome(const char *name, const scene *scene) {
    if (strcmp(name, "done") == 0) {
        return windlass_done();
    }
    if (strcmp(name, "requeue") == 0) {
        return windlass_requeue_after(90000);
    }
    if (strcmp(name, "requeue-now") == 0) {
        return windlass_requeue_after(0);
    }
    if (strcmp(name, "retry") == 0) {
        return windlass_retry("not yet");
    }
    if (strcmp(name, "terminal") == 0) {
        return windlass_terminal("never");
    }
    if (strcmp(name, "terminal-cut") == 0) {
        return windlass_terminal("%s", CUT);
    }
    if (strcmp(name, "retry-api") == 0) {
        WINDLASS_TRY(read_live(scene, "answers-503"));
        return windlass_done();
    }
    if (strcmp(name, "terminal-api") == 0) {
        windlass_error *error = read_live(scene, "answers-503");
        return error == NULL ? windlass_done() : windlass_terminal("reading: %s", windlass_failed(error).message);
    }
    if (strcmp(name, "exception") == 0) {
        /* C has none: a failure of the program's own. */
        return windlass_retry("%s", "broken");
    }
    return windlass_terminal("there is no case \"%s\"", name);
}
