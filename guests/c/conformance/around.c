/* Cases about events, the log, the configuration and the time. */

/* For getentropy, which C17 does not have. */
#define _DEFAULT_SOURCE

#include <string.h>
#include <unistd.h>

#include "words.h"

/* One event of each type. */
windlass_result events(const scene *scene) {
    windlass_event(scene->cluster, scene->primary, "Checked", "all is well");
    windlass_warning(scene->cluster, config_map(scene, "apple"), "Odd", "the apple is odd: \"żółty\"");
    windlass_info("told", NULL);
    return windlass_done();
}

/* Each level; values that have to be quoted, are empty or have control
 * characters; no values. */
windlass_result lines(const scene *scene) {
    (void)scene;
    windlass_debug("looked", "at", "apple", NULL);
    windlass_info("did", "what", "two words", "count", number(2), NULL);
    windlass_warn("odd", "text", "żółty = \"yellow\"", "empty", "", NULL);
    windlass_log_error("broken", "line", "one\ntwo", NULL);
    windlass_info("no values", NULL);
    windlass_info("cut", "text", CUT, NULL);
    return windlass_done();
}

/* Values of every type. */
windlass_result config(const scene *scene) {
    (void)scene;
    const json *configured = windlass_config();
    const char *list = NULL;
    json_each(item, json_get(configured, "list")) {
        list = joined(list, json_text(item));
    }
    windlass_info("config", "greeting", shown(configured, "/greeting"), "count", shown(configured, "/count"), "list", list,
                  "deep", shown(configured, "/nested/deep"), NULL);
    return windlass_done();
}

/* The format of the time, and that it goes forward. */
windlass_result times(const scene *scene) {
    (void)scene;
    const char *first = windlass_now(), *second = windlass_now();
    size_t length = strlen(first);
    windlass_info("clock", "length", number((long long)length), "zone", first + length - 1, "forward",
                  yes(strcmp(second, first) >= 0), NULL);
    return windlass_done();
}

/* Two random numbers. C's own rand() needs a seed, and this is where it comes
 * from. */
windlass_result draws(const scene *scene) {
    (void)scene;
    long long first = 0, second = 0;
    if (getentropy(&first, sizeof first) != 0 || getentropy(&second, sizeof second) != 0) {
        return windlass_retry("there are no random numbers");
    }
    windlass_info("random", "first", number(first), "second", number(second), NULL);
    return windlass_done();
}
