/* Code that cases share: objects, and how values and errors are logged. Entry
 * points: scene and refused. */
#ifndef CONFORMANCE_WORDS_H
#define CONFORMANCE_WORDS_H

#include <windlass.h>

/* Text whose last character is cut. */
#define CUT "half \xf0"

/* The surroundings of a case. */
typedef struct {
    windlass_cluster *cluster;
    windlass_key key;
    /* The object that asked for the case. */
    json *primary;
} scene;

extern const windlass_kind CONFIG_MAP, DEPLOYMENT;

/* An object of the namespace. */
windlass_key at(const scene *scene, const char *name);
/* A ConfigMap of the namespace, without data. */
json *config_map(const scene *scene, const char *name);
/* The same with a value of its data. */
json *config_map_with(const scene *scene, const char *name, const char *key, const char *value);
/* A ConfigMap of the namespace, from the cache; NULL if there is none. */
windlass_error *read_map(const scene *scene, const char *name, json **object);
/* The Deployment web, from the API server. */
windlass_error *read_web(const scene *scene, json **object);

/* A part of an object as lines have it. */
const char *shown(const json *object, const char *pointer);
const char *color(const json *object);
const char *size_of(const json *object);
const char *yes(bool value);
const char *number(long long value);
/* One text after the other, with a comma between them; NULL to begin with. */
const char *joined(const char *before, const char *more);
/* The names of an array of objects. */
const char *named(const json *objects);

/* Logs a call that failed, with all fields of its error. */
void refused(const char *call, const windlass_error *error);

/* The cases. */
windlass_result reading(const scene *scene);
windlass_result listing(const scene *scene);
windlass_result many(const scene *scene);
windlass_result creating(const scene *scene);
windlass_result updating(const scene *scene);
windlass_result patching(const scene *scene);
windlass_result applying(const scene *scene);
windlass_result status(const scene *scene);
windlass_result deleting(const scene *scene);
windlass_result ensuring(const scene *scene);
windlass_result collection(const scene *scene);
windlass_result batch(const scene *scene);
windlass_result text(const scene *scene);
windlass_result large(const scene *scene);
windlass_result events(const scene *scene);
windlass_result lines(const scene *scene);
windlass_result config(const scene *scene);
windlass_result times(const scene *scene);
windlass_result draws(const scene *scene);
windlass_result clusters(const scene *scene);
windlass_result opening(const scene *scene);
windlass_result across(const scene *scene);
windlass_result calling(const scene *scene);
windlass_result codes(const scene *scene);
windlass_result limits(const scene *scene);
windlass_result cancelled(const scene *scene);
/* How a reconcile ends, by the name of the case. */
windlass_result outcome(const char *name, const scene *scene);

/* Logs an answer of a batch. */
void answered(const windlass_reply *reply);

#endif
