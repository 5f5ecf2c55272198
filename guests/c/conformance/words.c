/* Code that cases share. */

#include "words.h"

#include <string.h>

const windlass_kind CONFIG_MAP = {"", "v1", "ConfigMap"}, DEPLOYMENT = {"apps", "v1", "Deployment"};

windlass_key at(const scene *scene, const char *name) {
    return windlass_sibling(scene->key, "%s", name);
}

json *config_map(const scene *scene, const char *name) {
    return windlass_object(CONFIG_MAP, at(scene, name));
}

json *config_map_with(const scene *scene, const char *name, const char *key, const char *value) {
    json *data = json_set(json_object(), key, json_string(value));
    return json_set(config_map(scene, name), "data", data);
}

windlass_error *read_map(const scene *scene, const char *name, json **object) {
    return windlass_get(scene->cluster, CONFIG_MAP, at(scene, name), NULL, object);
}

windlass_error *read_web(const scene *scene, json **object) {
    return windlass_get(scene->cluster, DEPLOYMENT, at(scene, "web"), &(windlass_get_options){.live = true}, object);
}

const char *shown(const json *object, const char *pointer) {
    const json *value = json_at(object, pointer);
    if (value == NULL) {
        return "none";
    }
    return value->type == JSON_STRING ? value->text : json_print(value);
}

const char *color(const json *object) {
    return shown(object, "/data/color");
}

const char *size_of(const json *object) {
    return shown(object, "/data/size");
}

const char *yes(bool value) {
    return value ? "true" : "false";
}

const char *number(long long value) {
    return windlass_format("%lld", value);
}

const char *joined(const char *before, const char *more) {
    return before == NULL ? more : windlass_format("%s,%s", before, more);
}

const char *named(const json *objects) {
    const char *names = NULL;
    json_each(object, objects) {
        names = joined(names, shown(object, "/metadata/name"));
    }
    return names == NULL ? "" : names;
}

void refused(const char *call, const windlass_error *error) {
    windlass_info(call, "code", windlass_code_name(error->code), "status", number(error->http_status), "reason", error->reason,
                  "message", error->message, "about", shown(error->details, "/name"), "field",
                  shown(error->details, "/causes/0/field"), "wait",
                  error->retry_after_ms < 0 ? "none" : number(error->retry_after_ms), NULL);
}
