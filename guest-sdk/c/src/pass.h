/* One pass over the dependents of a living object: pass.c. */
#ifndef WINDLASS_PASS_H
#define WINDLASS_PASS_H

#include "backend.h"
#include "windlass.h"

/* A failure of one keeps none of the others from being applied and deleted. */
typedef struct {
    windlass_cluster *cluster;
    const windlass_dependents *dependents;
    /* The desired objects. */
    const sdk_desired *wanted;
    size_t count;
    /* The objects that exist. */
    json *present;
    /* Texts: what is not there or not ready yet, each with the reason. */
    json *waiting;
    /* Texts: what failed. */
    json *failures;
    /* The first failure, and at the end with a message that names several; NULL: none. */
    windlass_error *failed;
} sdk_pass;

/* Applies what differs, deletes what is no longer desired, and asks what is ready. */
void sdk_run_pass(sdk_pass *pass);

/* An object that was deleted, or the reason why not. */
typedef struct {
    const json *object;
    windlass_error *error;
} sdk_removed;

/* Deletes these objects and what they own, and not newer ones of the same names; Namespaces and definitions of kinds after all
 * others. Returns the number of those that were not being deleted yet. */
size_t sdk_remove(windlass_cluster *cluster, const json *objects, sdk_removed **removed);

/* Whether the kind is one of these. */
bool sdk_is_among(const windlass_kind *kinds, size_t count, windlass_kind kind);

/* Whether two objects have one kind and key. */
bool sdk_same_identity(const json *one, const json *other);

/* A failure's message: the first field that is wrong, without the value that a server prints of it. */
const char *sdk_plain(const windlass_error *error);

/* Whether the cluster does not know a kind whose definition is desired. */
bool sdk_is_definition(windlass_kind kind);

/* The first of several texts, and how many more there are. */
const char *sdk_summary(const json *texts);

#endif
