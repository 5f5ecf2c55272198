/* Cases that write. */

#include <string.h>

#include "words.h"

/* Text that differs in every encoding. */
static const char TEXT[] = "żółć 🍐 \"quoted\" \\ back\tslash\x7f </end>\n";

static const windlass_write_options DRY_RUN = {.dry_run = true};

static windlass_result absent(const char *name) {
    return windlass_retry("there is no %s", name);
}

/* A new object, an existing one, and an invalid one. */
windlass_result creating(const scene *scene) {
    json *pear = config_map_with(scene, "pear", "color", "green"), *created, *found;
    json_set_at(pear, "/metadata/labels/fruit", json_string("pear"));
    WINDLASS_TRY(windlass_create(scene->cluster, pear, NULL, &created));
    windlass_info("created", "color", color(created), "stored", yes(json_at(created, "/metadata/uid") != NULL), NULL);
    windlass_error *again = windlass_create(scene->cluster, pear, NULL, NULL);
    if (again != NULL) {
        refused("again", again);
    }
    windlass_error *wrong = windlass_create(scene->cluster, config_map(scene, "Wrong"), NULL, NULL);
    if (wrong != NULL) {
        refused("wrong", wrong);
    }
    WINDLASS_TRY(read_map(scene, "pear", &found));
    windlass_info("read", "color", color(found), NULL);
    return windlass_done();
}

/* A conflict, solved by a new read; without a version; dry; numbers that do not
 * fit 32 bits. */
windlass_result updating(const scene *scene) {
    windlass_cluster *cluster = scene->cluster;
    json *apple, *updated;
    WINDLASS_TRY(read_map(scene, "apple", &apple));
    if (apple == NULL) {
        return absent("apple");
    }
    json *size = json_literal("{\"data\":{\"size\":\"2\"}}");
    WINDLASS_TRY(windlass_patch(cluster, CONFIG_MAP, at(scene, "apple"), WINDLASS_MERGE, size, NULL, NULL));
    json_set_at(apple, "/data/color", json_string("green"));
    windlass_error *stale = windlass_update(cluster, apple, NULL, &updated);
    if (stale != NULL && stale->code == WINDLASS_CONFLICT) {
        refused("stale", stale);
        WINDLASS_TRY(read_map(scene, "apple", &apple));
        json_set_at(apple, "/data/color", json_string("green"));
        stale = windlass_update(cluster, apple, NULL, &updated);
    }
    WINDLASS_TRY(stale);
    windlass_info("updated", "color", color(updated), "size", size_of(updated), NULL);

    json *dry, *stored;
    json_set_at(updated, "/data/color", json_string("blue"));
    WINDLASS_TRY(windlass_update(cluster, updated, &DRY_RUN, &dry));
    WINDLASS_TRY(read_map(scene, "apple", &stored));
    windlass_info("dry", "answered", color(dry), "stored", color(stored), NULL);

    json *brown = config_map_with(scene, "apple", "color", "brown"), *replaced;
    json_set_at(brown, "/metadata/labels/set", json_string("fruit"));
    WINDLASS_TRY(windlass_update(cluster, brown, NULL, &replaced));
    windlass_info("replaced", "color", color(replaced), "size", size_of(replaced), NULL);

    json *web, *scaled;
    WINDLASS_TRY(read_web(scene, &web));
    if (web == NULL) {
        return absent("web");
    }
    json_set_at(web, "/spec/replicas", json_number(3));
    WINDLASS_TRY(windlass_update(cluster, web, NULL, &scaled));
    windlass_info("scaled", "replicas", shown(scaled, "/spec/replicas"), "grace",
                  shown(scaled, "/spec/template/spec/terminationGracePeriodSeconds"), NULL);
    return windlass_done();
}

/* The three types of patch; dry run; of an absent object. */
windlass_result patching(const scene *scene) {
    windlass_cluster *cluster = scene->cluster;
    windlass_key apple = at(scene, "apple");
    json *patched, *stored;
    json *steps = json_literal("[{\"op\":\"test\",\"path\":\"/data/color\",\"value\":\"red\"},"
                               "{\"op\":\"add\",\"path\":\"/data/shape\",\"value\":\"round\"}]");
    WINDLASS_TRY(windlass_patch(cluster, CONFIG_MAP, apple, WINDLASS_JSON_PATCH, steps, NULL, &patched));
    windlass_info("json", "color", color(patched), "shape", shown(patched, "/data/shape"), NULL);

    json *merge = json_literal("{\"data\":{\"color\":null,\"size\":\"3\"}}");
    WINDLASS_TRY(windlass_patch(cluster, CONFIG_MAP, apple, WINDLASS_MERGE, merge, NULL, &patched));
    windlass_info("merge", "color", color(patched), "size", size_of(patched), NULL);

    json *image = json_literal("{\"spec\":{\"template\":{\"spec\":{\"containers\":[{"
                               "\"name\":\"app\",\"image\":\"app:2\"}]}}}}");
    WINDLASS_TRY(windlass_patch(cluster, DEPLOYMENT, at(scene, "web"), WINDLASS_STRATEGIC_MERGE, image, NULL, &patched));
    windlass_info("strategic", "first", shown(patched, "/spec/template/spec/containers/0/image"), "second",
                  shown(patched, "/spec/template/spec/containers/1/image"), NULL);

    json *size = json_literal("{\"data\":{\"size\":\"4\"}}");
    WINDLASS_TRY(windlass_patch(cluster, CONFIG_MAP, apple, WINDLASS_MERGE, size, &DRY_RUN, &patched));
    WINDLASS_TRY(read_map(scene, "apple", &stored));
    windlass_info("dry", "answered", size_of(patched), "stored", size_of(stored), NULL);

    windlass_error *error = windlass_patch(cluster, CONFIG_MAP, at(scene, "nothing"), WINDLASS_MERGE, size, NULL, NULL);
    if (error != NULL) {
        refused("absent", error);
    }
    return windlass_done();
}

/* With an owner; fields that are dropped; a field of another manager, and
 * taking it over; dry. */
windlass_result applying(const scene *scene) {
    windlass_cluster *cluster = scene->cluster;
    json *wanted = config_map_with(scene, "fig", "color", "purple"), *applied, *stored;
    json_set_at(wanted, "/data/size", json_string("1"));
    WINDLASS_TRY(windlass_set_controller(wanted, scene->primary));
    WINDLASS_TRY(windlass_apply(cluster, wanted, NULL, &applied));
    windlass_info("applied", "color", color(applied), "size", size_of(applied), "owner",
                  shown(windlass_controller(applied), "/name"), NULL);

    json_remove(json_get(wanted, "data"), "size");
    WINDLASS_TRY(windlass_apply(cluster, wanted, NULL, &applied));
    windlass_info("dropped", "color", color(applied), "size", size_of(applied), NULL);

    json *apple = config_map_with(scene, "apple", "color", "blue");
    windlass_error *theirs = windlass_apply(cluster, apple, NULL, NULL);
    if (theirs != NULL) {
        refused("theirs", theirs);
    }
    WINDLASS_TRY(windlass_apply(cluster, apple, &(windlass_write_options){.force = true}, &applied));
    windlass_info("taken", "color", color(applied), NULL);

    json_set_at(wanted, "/data/color", json_string("white"));
    WINDLASS_TRY(windlass_apply(cluster, wanted, &DRY_RUN, &applied));
    WINDLASS_TRY(read_map(scene, "fig", &stored));
    windlass_info("dry", "answered", color(applied), "stored", color(stored), NULL);
    return windlass_done();
}

/* The status without the other fields, by patch and by update. */
windlass_result status(const scene *scene) {
    const windlass_write_options of_status = {.subresource = "status"};
    json *wanted = json_literal("{\"status\":{\"replicas\":2,\"readyReplicas\":1}}"), *patched, *web, *updated;
    WINDLASS_TRY(windlass_patch(scene->cluster, DEPLOYMENT, at(scene, "web"), WINDLASS_MERGE, wanted, &of_status, &patched));
    windlass_info("patched", "ready", shown(patched, "/status/readyReplicas"), NULL);

    WINDLASS_TRY(read_web(scene, &web));
    if (web == NULL) {
        return absent("web");
    }
    json_set_at(web, "/status/readyReplicas", json_number(2));
    json_set_at(web, "/spec/replicas", json_number(9));
    WINDLASS_TRY(windlass_update(scene->cluster, web, &of_status, &updated));
    windlass_info("updated", "ready", shown(updated, "/status/readyReplicas"), "replicas", shown(updated, "/spec/replicas"),
                  NULL);
    return windlass_done();
}

/* With preconditions that fail and that hold; dry; with every option; of an
 * absent object. */
windlass_result deleting(const scene *scene) {
    windlass_cluster *cluster = scene->cluster;
    windlass_key apple = at(scene, "apple"), banana = at(scene, "banana");
    windlass_error *uid = windlass_delete(cluster, CONFIG_MAP, apple, &(windlass_delete_options){.uid = "another"}, NULL);
    if (uid != NULL) {
        refused("uid", uid);
    }
    windlass_error *version =
        windlass_delete(cluster, CONFIG_MAP, banana, &(windlass_delete_options){.resource_version = "1"}, NULL);
    if (version != NULL) {
        refused("version", version);
    }

    json *found;
    bool deleted, again;
    WINDLASS_TRY(read_map(scene, "apple", &found));
    const windlass_delete_options this_one = {.uid = json_text_at(found, "/metadata/uid"),
                                              .resource_version = json_text_at(found, "/metadata/resourceVersion")};
    WINDLASS_TRY(windlass_delete(cluster, CONFIG_MAP, apple, &this_one, &deleted));
    WINDLASS_TRY(windlass_delete(cluster, CONFIG_MAP, apple, NULL, &again));
    WINDLASS_TRY(read_map(scene, "apple", &found));
    windlass_info("deleted", "deleted", yes(deleted), "again", yes(again), "gone", yes(found == NULL), NULL);

    WINDLASS_TRY(windlass_delete(cluster, CONFIG_MAP, banana, &(windlass_delete_options){.dry_run = true}, &deleted));
    WINDLASS_TRY(read_map(scene, "banana", &found));
    windlass_info("dry", "deleted", yes(deleted), "there", yes(found != NULL), NULL);

    const uint32_t none = 0;
    const windlass_delete_options at_once = {.propagation = WINDLASS_BACKGROUND, .grace_period = &none};
    WINDLASS_TRY(windlass_delete(cluster, CONFIG_MAP, at(scene, "cherry"), &at_once, &deleted));
    windlass_info("at once", "deleted", yes(deleted), NULL);
    return windlass_done();
}

/* Objects in every form that a server may keep otherwise. */
windlass_result ensuring(const scene *scene) {
    static const char *const effects[] = {"created", "updated", "unchanged"};
    const char *text = json_text_at(scene->primary, "/data/objects"), *why = NULL;
    json *objects = json_parse(text, strlen(text), &why);
    if (objects == NULL) {
        return windlass_retry("%s", why);
    }
    json_each(each, objects) {
        json *object = json_set_at(json_copy(each), "/metadata/namespace", json_string(scene->key.ns));
        windlass_written written;
        WINDLASS_TRY(windlass_ensure(scene->cluster, object, &written));
        windlass_info("ensured", "kind", json_text_at(object, "/kind"), "name", json_text_at(object, "/metadata/name"), "effect",
                      effects[written.effect], NULL);
    }
    return windlass_done();
}

/* Many objects with one call, by label. */
windlass_result collection(const scene *scene) {
    const windlass_list_options red = {.ns = scene->key.ns, .labels = "color=red"};
    WINDLASS_TRY(windlass_delete_collection(scene->cluster, CONFIG_MAP, &red, NULL));
    const windlass_list_options fruit = {.ns = scene->key.ns, .labels = "set=fruit", .live = true};
    json *left;
    WINDLASS_TRY(windlass_list_all(scene->cluster, CONFIG_MAP, &fruit, &left));
    windlass_info("left", "names", named(left), NULL);
    return windlass_done();
}

/* Every operation in one batch. */
windlass_result batch(const scene *scene) {
    json *apple;
    WINDLASS_TRY(read_map(scene, "apple", &apple));
    json_set_at(apple, "/data/size", json_string("7"));
    const windlass_operation operations[] = {
        {.verb = WINDLASS_OP_GET, .kind = CONFIG_MAP, .key = scene->key},
        {.verb = WINDLASS_OP_GET, .kind = CONFIG_MAP, .key = at(scene, "nothing")},
        {.verb = WINDLASS_OP_CREATE, .object = config_map_with(scene, "pear", "color", "green")},
        {.verb = WINDLASS_OP_CREATE, .object = config_map(scene, "banana")},
        {.verb = WINDLASS_OP_UPDATE, .object = apple},
        {.verb = WINDLASS_OP_PATCH,
         .kind = CONFIG_MAP,
         .key = at(scene, "banana"),
         .object = json_literal("{\"data\":{\"size\":\"9\"}}")},
        {.verb = WINDLASS_OP_APPLY, .object = config_map_with(scene, "fig", "color", "purple")},
        {.verb = WINDLASS_OP_DELETE, .kind = CONFIG_MAP, .key = at(scene, "cherry")},
        {.verb = WINDLASS_OP_DELETE, .kind = CONFIG_MAP, .key = at(scene, "nothing")},
        {.verb = WINDLASS_OP_LIST, .kind = CONFIG_MAP, .list = {.ns = scene->key.ns, .fields = "metadata.name=banana"}},
    };
    const size_t count = sizeof operations / sizeof *operations;
    windlass_reply *replies = windlass_batch(scene->cluster, operations, count);
    for (size_t at = 0; at < count; at++) {
        answered(&replies[at]);
    }
    return windlass_done();
}

void answered(const windlass_reply *reply) {
    if (reply->error != NULL) {
        refused("refused", reply->error);
    } else if (reply->object != NULL) {
        windlass_info("object", "name", shown(reply->object, "/metadata/name"), "color", color(reply->object), "size",
                      size_of(reply->object), NULL);
    } else if (reply->page.items != NULL) {
        windlass_info("page", "names", named(reply->page.items), NULL);
    } else {
        windlass_info("nothing", NULL);
    }
}

/* A round trip of unusual text. */
windlass_result text(const scene *scene) {
    json *found;
    WINDLASS_TRY(windlass_create(scene->cluster, config_map_with(scene, "text", "text", TEXT), NULL, NULL));
    WINDLASS_TRY(windlass_get(scene->cluster, CONFIG_MAP, at(scene, "text"), &(windlass_get_options){.live = true}, &found));
    windlass_info("text", "same", yes(strcmp(shown(found, "/data/text"), TEXT) == 0), "text", TEXT, NULL);
    return windlass_done();
}

/* A round trip of an object of 300 KB. */
windlass_result large(const scene *scene) {
    char *digits = windlass_alloc(300001);
    for (size_t at = 0; at < 300000; at++) {
        digits[at] = (char)('0' + at % 10);
    }
    json *found;
    WINDLASS_TRY(windlass_create(scene->cluster, config_map_with(scene, "large", "text", digits), NULL, NULL));
    WINDLASS_TRY(read_map(scene, "large", &found));
    windlass_info("large", "length", number((long long)strlen(shown(found, "/data/text"))), NULL);
    return windlass_done();
}
