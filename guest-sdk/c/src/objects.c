/* Objects of Kubernetes: kinds, keys, labels, owners. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "windlass.h"

static const char *api_version(windlass_kind kind) {
    return kind.group[0] == '\0' ? kind.version : windlass_format("%s/%s", kind.group, kind.version);
}

windlass_kind windlass_kind_of(const json *object) {
    const char *version = json_text_at(object, "/apiVersion"), *kind = json_text_at(object, "/kind");
    if (version == NULL || kind == NULL) {
        fputs("windlass: the object has no apiVersion or no kind: windlass_object makes one that has\n", stderr);
        abort();
    }
    const char *slash = strchr(version, '/');
    if (slash == NULL) {
        return (windlass_kind){"", version, kind};
    }
    return (windlass_kind){windlass_format("%.*s", (int)(slash - version), version), slash + 1, kind};
}

json *windlass_object(windlass_kind kind, windlass_key key) {
    json *object = json_object(), *metadata = json_object();
    json_set(object, "apiVersion", json_string(api_version(kind)));
    json_set(object, "kind", json_string(kind.kind));
    json_set(object, "metadata", metadata);
    if (key.ns != NULL) {
        json_set(metadata, "namespace", json_string(key.ns));
    }
    json_set(metadata, "name", json_string(key.name));
    return object;
}

windlass_key windlass_key_of(const json *object) {
    const char *name = json_text_at(object, "/metadata/name");
    if (name == NULL) {
        fputs("windlass: the object has no metadata.name\n", stderr);
        abort();
    }
    return (windlass_key){json_text_at(object, "/metadata/namespace"), name};
}

windlass_key windlass_sibling(windlass_key key, const char *format, ...) {
    va_list values;
    va_start(values, format);
    const char *name = windlass_vformat(format, values);
    va_end(values);
    return (windlass_key){key.ns, name};
}

const char *windlass_key_text(windlass_key key) {
    return key.ns == NULL ? key.name : windlass_format("%s/%s", key.ns, key.name);
}

const char *windlass_label(const json *object, const char *name) {
    return json_text(json_get(json_at(object, "/metadata/labels"), name));
}

const char *windlass_annotation(const json *object, const char *name) {
    return json_text(json_get(json_at(object, "/metadata/annotations"), name));
}

bool windlass_is_deleting(const json *object) {
    return json_text_at(object, "/metadata/deletionTimestamp") != NULL;
}

json *windlass_controller(const json *object) {
    json_each(reference, json_at(object, "/metadata/ownerReferences")) {
        if (json_is_true(json_get(reference, "controller"))) {
            return reference;
        }
    }
    return NULL;
}

void windlass_set_controller(json *object, const json *owner) {
    const char *uid = json_text_at(owner, "/metadata/uid");
    if (uid == NULL) {
        fputs("windlass: the owner has no metadata.uid: only an object that was read can own another\n", stderr);
        abort();
    }
    json *reference = json_object();
    json_set(reference, "apiVersion", json_copy(json_get(owner, "apiVersion")));
    json_set(reference, "kind", json_copy(json_get(owner, "kind")));
    json_set(reference, "name", json_string(windlass_key_of(owner).name));
    json_set(reference, "uid", json_string(uid));
    json_set(reference, "controller", json_bool(true));
    json_set(reference, "blockOwnerDeletion", json_bool(true));
    json *references = json_at(object, "/metadata/ownerReferences");
    if (references == NULL) {
        references = json_array();
        json_set_at(object, "/metadata/ownerReferences", references);
    }
    json_append(references, reference);
}
