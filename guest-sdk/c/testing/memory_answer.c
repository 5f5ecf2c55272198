/* The answers of a cluster in memory to a guest's calls. Entry point: memory_answer. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* The index of dependents, and the label that it is of. */
#define OWNER "windlass.dev/owner"

/* Items of a page if the call sets no limit. */
enum { PAGE = 500 };

static windlass_error *check_subresource(const char *subresource) {
    if (subresource == NULL || strcmp(subresource, "status") == 0) {
        return NULL;
    }
    return memory_invalid(windlass_format("a cluster in memory has no subresource \"%s\"", subresource));
}

static json *projected(const json *object, bool metadata_only) {
    static const char *const kept[] = {"apiVersion", "kind", "metadata"};
    if (!metadata_only) {
        return json_copy(object);
    }
    json *made = json_object();
    for (size_t at = 0; at < sizeof kept / sizeof *kept; at++) {
        if (json_get(object, kept[at]) != NULL) {
            json_set(made, kept[at], json_copy(json_get(object, kept[at])));
        }
    }
    return made;
}

/* An array of the objects that namespace, labels and fields select. */
static windlass_error *selected(const memory_store *store, windlass_kind kind, const windlass_list_options *by, json **found) {
    *found = json_array();
    windlass_error *error = memory_check_selectors(by->labels, by->fields);
    for (const memory_entry *each = store->first; error == NULL && each != NULL; each = each->next) {
        bool match = strcmp(each->group, kind.group) == 0 && strcmp(each->kind, kind.kind) == 0;
        match = match && (by->ns == NULL || strcmp(each->ns, by->ns) == 0);
        if (match) {
            error = memory_labels_match(by->labels, json_at(each->object, "/metadata/labels"), &match);
        }
        if (error == NULL && match) {
            error = memory_fields_match(by->fields, each->object, &match);
        }
        if (error == NULL && match) {
            json_append(*found, json_copy(each->object));
        }
    }
    return error;
}

static windlass_error *list(const memory_store *store, const windlass_operation *operation, windlass_page *page) {
    windlass_list_options by = operation->list;
    if (by.index != NULL) {
        if (strcmp(by.index, OWNER) != 0) {
            return memory_invalid("a cluster in memory has no indexes: list by label");
        }
        by.labels = windlass_format("%s=%s", OWNER, by.value == NULL ? "" : by.value);
    }
    json *all;
    windlass_error *error = selected(store, operation->kind, &by, &all);
    if (error != NULL) {
        return error;
    }
    long long start = 0, count = (long long)json_count(all), at = 0;
    if (by.continue_token != NULL) {
        char *end;
        errno = 0;
        start = strtoll(by.continue_token, &end, 10);
        if (*end != '\0' || errno != 0 || start < 0) {
            return memory_invalid("the continue token is of another list");
        }
    }
    long long limit = by.limit == 0 ? PAGE : by.limit;
    page->items = json_array();
    json_each(object, all) {
        if (at >= start && at - start < limit) {
            json_append(page->items, projected(object, by.metadata_only));
        }
        at++;
    }
    page->continue_token = limit < count - start ? windlass_format("%lld", start + limit) : NULL;
    page->resource_version = windlass_format("%lld", store->version);
    return NULL;
}

static windlass_error *delete_collection(memory_store *store, const windlass_operation *operation) {
    json *found;
    windlass_error *error = selected(store, operation->kind, &operation->list, &found);
    if (error == NULL && !operation->deletion.dry_run) {
        json_each(object, found) {
            memory_remove(store, operation->kind, windlass_key_of(object));
        }
    }
    return error;
}

static windlass_error *write(memory_store *store, const windlass_operation *operation, json **stored) {
    const json *object = operation->object;
    const windlass_write_options *options = &operation->write;
    windlass_error *error = check_subresource(options->subresource);
    if (error != NULL) {
        return error;
    }
    if (operation->verb == WINDLASS_OP_UPDATE) {
        return memory_update(store, windlass_kind_of(object), object, options, stored);
    }
    if (operation->verb == WINDLASS_OP_APPLY) {
        return memory_apply(store, windlass_kind_of(object), object, options, stored);
    }
    if (operation->patch_type != WINDLASS_MERGE) {
        return memory_invalid("a cluster in memory knows merge patches only");
    }
    return memory_patch(store, operation->kind, operation->key, object, options, stored);
}

windlass_reply memory_answer(memory_store *store, const windlass_operation *operation) {
    const json *object = operation->object;
    windlass_reply reply = {0};
    switch (operation->verb) {
    case WINDLASS_OP_GET:
        reply.error = check_subresource(operation->get.subresource);
        object = memory_find(store, operation->kind, operation->key);
        if (reply.error == NULL && object != NULL) {
            reply.object = projected(object, operation->get.metadata_only);
        }
        break;
    case WINDLASS_OP_LIST:
        reply.error = list(store, operation, &reply.page);
        break;
    case WINDLASS_OP_CREATE:
        reply.error = memory_create(store, windlass_kind_of(object), object, operation->write.dry_run, &reply.object);
        break;
    case WINDLASS_OP_UPDATE:
    case WINDLASS_OP_PATCH:
    case WINDLASS_OP_APPLY:
        reply.error = write(store, operation, &reply.object);
        break;
    case WINDLASS_OP_DELETE:
        reply.error = memory_delete(store, operation->kind, operation->key, &operation->deletion);
        break;
    case WINDLASS_OP_DELETE_COLLECTION:
        reply.error = delete_collection(store, operation);
        break;
    }
    return reply;
}
