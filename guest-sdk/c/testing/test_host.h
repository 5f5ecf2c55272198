/*
 * What is in the place of the host in a unit test: a script (windlass_test.c) or a fleet in memory (windlass_memory.c).
 * Entry points: test_host, which both begin with, and test_enter.
 */
#ifndef TEST_HOST_H
#define TEST_HOST_H

#include "backend.h"
#include "windlass_test.h"

typedef struct test_host {
    const char *config, *now;
    json *logs;
    windlass_reply (*call)(windlass_cluster *cluster, const windlass_operation *operation);
    /* Of a batch over clusters, names has the cluster of each operation, and cluster is NULL; else names is NULL. */
    void (*batch)(struct test_host *host, windlass_cluster *cluster, const char *const *names,
                  const windlass_operation *operations, size_t count, windlass_reply *replies);
    /* An event as test_host.c shows it. */
    void (*record)(windlass_cluster *cluster, json *event);
    windlass_error *(*clusters)(struct test_host *host, const char *labels, windlass_cluster_info **clusters, size_t *count);
    windlass_error *(*open)(struct test_host *host, const char *name, windlass_cluster **cluster);
    /* Answers calls of servers that are no API servers; NULL: they are denied. */
    windlass_server *serve;
    void *context;
} test_host;

struct windlass_cluster {
    test_host *host;
    const char *name;
};

/* Sets what a host has at the beginning: an empty configuration, the time of every test, no lines. */
void test_begin(test_host *host);

/* Sets what answers calls of servers that are no API servers. */
void test_serve(test_host *host, windlass_server *serve, void *context);

/* Makes this the host of the program, NULL for none, and returns the one before. */
test_host *test_enter(test_host *host);

/* Sets a member, unless the text is NULL. */
void test_show_text(json *into, const char *name, const char *text);

/* A kind, for people. */
const char *test_kind_text(windlass_kind kind);

#endif
