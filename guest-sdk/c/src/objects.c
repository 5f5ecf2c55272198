/* Objects of Kubernetes: kinds, keys, labels, owners. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "windlass.h"

windlass_error *sdk_failure(windlass_code code, const char *reason, const char *message) {
    windlass_error *error = windlass_alloc(sizeof *error);
    *error = (windlass_error){.code = code, .reason = reason, .message = message, .retry_after_ms = -1};
    return error;
}

bool sdk_same_text(const char *one, const char *other) {
    return one != NULL && other != NULL && strcmp(one, other) == 0;
}

const char *sdk_named(const json *object) {
    return windlass_format("%s %s", windlass_kind_of(object).kind, windlass_key_text(windlass_key_of(object)));
}

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

bool sdk_is_owned_by(const json *object, const char *uid) {
    json_each(reference, json_at(object, "/metadata/ownerReferences")) {
        if (sdk_same_text(json_text(json_get(reference, "uid")), uid)) {
            return true;
        }
    }
    return false;
}

json *windlass_owner_reference(const json *owner) {
    const char *uid = json_text_at(owner, "/metadata/uid");
    if (uid == NULL) {
        fputs("windlass: the owner has no metadata.uid: only an object that was read can own another\n", stderr);
        abort();
    }
    json *reference = json_object();
    json_set(reference, "apiVersion", json_copy(json_get(owner, "apiVersion")));
    json_set(reference, "kind", json_copy(json_get(owner, "kind")));
    json_set(reference, "name", json_string(windlass_key_of(owner).name));
    return json_set(reference, "uid", json_string(uid));
}

json *windlass_controller_reference(const json *owner) {
    json *reference = windlass_owner_reference(owner);
    json_set(reference, "controller", json_bool(true));
    return json_set(reference, "blockOwnerDeletion", json_bool(true));
}

/* The garbage collector looks for an owner in the namespace of what it owns. */
static windlass_error *out_of_reach(const json *object, const json *owner) {
    const char *ns = windlass_key_of(owner).ns;
    if (ns == NULL || sdk_same_text(ns, windlass_key_of(object).ns)) {
        return NULL;
    }
    return sdk_failure(WINDLASS_INVALID, "Invalid",
                       windlass_format("%s cannot be owned by %s: an owner is of the same namespace, or of none",
                                       sdk_named(object), sdk_named(owner)));
}

windlass_error *windlass_set_owner(json *object, const json *owner) {
    json *reference = windlass_owner_reference(owner), *references = json_array();
    windlass_error *error = out_of_reach(object, owner);
    if (error != NULL || sdk_is_owned_by(object, json_text(json_get(reference, "uid")))) {
        return error;
    }
    json_each(each, json_at(object, "/metadata/ownerReferences")) {
        json_append(references, each);
    }
    json_set_at(object, "/metadata/ownerReferences", json_append(references, reference));
    return NULL;
}

windlass_error *windlass_set_controller(json *object, const json *owner) {
    json *reference = windlass_controller_reference(owner);
    const char *uid = json_text(json_get(reference, "uid"));
    windlass_error *error = out_of_reach(object, owner);
    if (error != NULL) {
        return error;
    }
    const json *other = windlass_controller(object);
    const char *other_uid = json_text(json_get(other, "uid"));
    if (other != NULL && (other_uid == NULL || strcmp(other_uid, uid) != 0)) {
        const char *kind = json_text(json_get(other, "kind")), *name = json_text(json_get(other, "name"));
        return sdk_failure(WINDLASS_CONFLICT, "AlreadyOwned",
                           windlass_format("%s has a controller already: %s %s", sdk_named(object), kind == NULL ? "" : kind,
                                           name == NULL ? "" : name));
    }
    json *references = json_array();
    bool there = false;
    json_each(each, json_at(object, "/metadata/ownerReferences")) {
        const char *of = json_text(json_get(each, "uid"));
        bool same = of != NULL && strcmp(of, uid) == 0;
        json_append(references, same ? reference : each);
        there = there || same;
    }
    if (!there) {
        json_append(references, reference);
    }
    json_set_at(object, "/metadata/ownerReferences", references);
    return NULL;
}

/* Results of the host. */

json *json_of_host(const char *text, size_t length, windlass_error **error) {
    const char *why = NULL;
    const json *begun = NULL;
    json *value = json_begun(text, length, &why, &begun);
    if (value != NULL) {
        return value;
    }
    const char *kind = json_text_at(begun, "/kind"), *name = json_text_at(begun, "/metadata/name");
    const char *ns = json_text_at(begun, "/metadata/namespace");
    const char *which = name == NULL ? "an object" : windlass_key_text((windlass_key){ns, name});
    *error =
        sdk_failure(WINDLASS_INVALID, "Invalid",
                    windlass_format("cannot read %s%s%s: %s", kind == NULL ? "" : kind, kind == NULL ? "" : " ", which, why));
    return NULL;
}

/* The length in bytes of the first UTF-8 character; 0 if the text begins with none. */
static size_t character(const unsigned char *at) {
    static const struct {
        unsigned char first_from, first_to, second_from, second_to;
        size_t length;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        if (at[0] < forms[form].first_from || at[0] > forms[form].first_to) {
            continue;
        }
        size_t length = forms[form].length;
        if (length > 1 && (at[1] < forms[form].second_from || at[1] > forms[form].second_to)) {
            return 0;
        }
        for (size_t more = 2; more < length; more++) {
            if (at[more] < 0x80 || at[more] > 0xbf) {
                return 0;
            }
        }
        return length;
    }
    return 0;
}

const char *well_formed(const char *text) {
    size_t wrong = 0;
    const char *at = text;
    while (*at != '\0') {
        size_t length = character((const unsigned char *)at);
        wrong += length == 0 ? 1 : 0;
        at += length == 0 ? 1 : length;
    }
    if (wrong == 0) {
        return text;
    }
    char *made = windlass_alloc((size_t)(at - text) + 2 * wrong + 1), *to = made;
    while (*text != '\0') {
        size_t length = character((const unsigned char *)text);
        memcpy(to, length == 0 ? "\xef\xbf\xbd" : text, length == 0 ? 3 : length);
        to += length == 0 ? 3 : length;
        text += length == 0 ? 1 : length;
    }
    return made;
}
