/* Finalizers of objects. */

#include <string.h>

#include "backend.h"
#include "windlass.h"

bool windlass_has_finalizer(const json *object, const char *finalizer) {
    json_each(each, json_at(object, "/metadata/finalizers")) {
        if (sdk_same_text(json_text(each), finalizer)) {
            return true;
        }
    }
    return false;
}

/* Writes the list to the version that was read, so that no finalizer of another is lost. */
static windlass_error *write_finalizers(windlass_cluster *cluster, const json *object, json *finalizers,
                                        windlass_written *written) {
    const char *version = json_text_at(object, "/metadata/resourceVersion");
    if (version == NULL) {
        return sdk_failure(
            WINDLASS_INVALID, "Invalid",
            windlass_format("%s has no resourceVersion: take an object that was read from a cluster", sdk_named(object)));
    }
    json *patch = json_set_at(json_object(), "/metadata/resourceVersion", json_string(version));
    json_set_at(patch, "/metadata/finalizers", finalizers);
    json *stored;
    windlass_error *error =
        windlass_patch(cluster, windlass_kind_of(object), windlass_key_of(object), WINDLASS_MERGE, patch, NULL, &stored);
    return error != NULL ? error : sdk_wrote(written, WINDLASS_UPDATED, stored);
}

windlass_error *windlass_ensure_finalizer(windlass_cluster *cluster, const json *object, const char *finalizer,
                                          windlass_written *written) {
    if (windlass_is_deleting(object) || windlass_has_finalizer(object, finalizer)) {
        return sdk_wrote(written, WINDLASS_UNCHANGED, json_copy(object));
    }
    json *finalizers = json_array();
    json_each(each, json_at(object, "/metadata/finalizers")) {
        json_append(finalizers, each);
    }
    return write_finalizers(cluster, object, json_append(finalizers, json_string(finalizer)), written);
}

windlass_error *windlass_remove_finalizer(windlass_cluster *cluster, const json *object, const char *finalizer,
                                          windlass_written *written) {
    if (!windlass_has_finalizer(object, finalizer)) {
        return sdk_wrote(written, WINDLASS_UNCHANGED, json_copy(object));
    }
    json *others = json_array();
    json_each(each, json_at(object, "/metadata/finalizers")) {
        if (!sdk_same_text(json_text(each), finalizer)) {
            json_append(others, each);
        }
    }
    windlass_error *error = write_finalizers(cluster, object, others, written);
    if (error != NULL && error->code == WINDLASS_NOT_FOUND) {
        return sdk_wrote(written, WINDLASS_UNCHANGED, json_copy(object));
    }
    return error;
}
