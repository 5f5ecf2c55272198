/* The guest as a process: it uses each function of the host once, and a host answers it with the lines of a file. Usage:
 * native_test FILE, an array of pairs: what the host sends, and what the guest must send for it. */

#define _GNU_SOURCE
#include <assert.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define main native_main
#include "../native/native.c"
#undef main

static const windlass_kind MAPS = {"", "v1", "ConfigMap"}, SECRETS = {"", "v1", "Secret"};

static windlass_result describe(windlass_description *description) {
    description->title = "calls";
    windlass_add_watch(description, (windlass_watch){.kind = MAPS, .clusters = WINDLASS_LOCAL, .changes = WINDLASS_STATUS});
    windlass_add_watch(description, (windlass_watch){.kind = SECRETS, .enqueue = WINDLASS_BY_INDEX, .index = "i"});
    const json *options = json_set(json_object(), "o", json_string("p"));
    windlass_add_index(description, (windlass_index){.kind = MAPS, .name = "i", .path = "data.a", .options = options});
    return windlass_done();
}

static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    json *found, *object = windlass_object(MAPS, request->key);
    assert(strcmp(request->cluster, "alpha") == 0 && strcmp(windlass_name(cluster), "alpha") == 0);
    assert(windlass_get(cluster, MAPS, request->key, &(windlass_get_options){.live = true}, &found) == NULL && found == NULL);
    windlass_page page;
    windlass_list_options list = {.index = "i", .value = "v", .limit = 1};
    assert(windlass_list(cluster, MAPS, &list, &page) == NULL && json_count(page.items) == 1);
    assert(strcmp(page.continue_token, "more") == 0);
    windlass_write_options status = {.subresource = "status"};
    windlass_error *error = windlass_patch(cluster, MAPS, request->key, WINDLASS_JSON_PATCH, json_array(), &status, NULL);
    assert(error->code == WINDLASS_ALREADY_EXISTS && error->http_status == 409 && error->retry_after_ms == 7);
    assert(strcmp(error->reason, "R") == 0 && strcmp(error->message, "m") == 0 && json_count(error->details) == 1);
    windlass_delete_options orphan = {.propagation = WINDLASS_ORPHAN, .grace_period = &(uint32_t){9}};
    assert(windlass_delete_collection(cluster, MAPS, &(windlass_list_options){.ns = "n"}, &orphan) == NULL);
    windlass_warning(cluster, object, "Reason", "note");
    windlass_operation operations[] = {
        {.verb = WINDLASS_OP_APPLY, .object = object, .write = {.force = true}},
        {.verb = WINDLASS_OP_DELETE, .kind = MAPS, .key = request->key},
        {.verb = WINDLASS_OP_LIST, .kind = MAPS},
        {.verb = WINDLASS_OP_GET, .kind = MAPS, .key = request->key},
    };
    windlass_reply *replies = windlass_batch(cluster, operations, 4);
    assert(replies[0].object != NULL && replies[1].error == NULL && json_count(replies[2].page.items) == 1);
    assert(replies[3].error->code == WINDLASS_CONFLICT);
    windlass_cluster_info *infos;
    size_t count;
    assert(windlass_clusters("a=b", &infos, &count) == NULL && count == 1 && infos[0].ready);
    assert(strcmp(json_text_at(infos[0].labels, "/a"), "b") == 0);
    windlass_cluster *beta;
    assert(windlass_open(infos[0].name, &beta) == NULL);
    assert(windlass_create(beta, object, &(windlass_write_options){.dry_run = true}, &found) == NULL && found != NULL);
    const char *const names[] = {"beta"};
    windlass_fleet_batch(names, &(windlass_operation){.verb = WINDLASS_OP_UPDATE, .object = object}, 1);
    windlass_http_response answer;
    windlass_http_request put = {.method = "PUT", .url = "https://a/", .body = "\001\377", .body_length = 2, .timeout_ms = 5};
    put.headers = (windlass_header[]){{"X", "1"}, {"X", "2"}};
    put.header_count = 2;
    assert(windlass_http_send(&put, &answer) == NULL && answer.status == 503 && memcmp(answer.body, "\0\377", 3) == 0);
    assert(strcmp(windlass_http_header(&answer, "Retry-After"), "7") == 0 && answer.body_length == 2);
    assert(windlass_http_get("https://b/", &answer)->code == WINDLASS_DENIED);
    assert(json_integer(json_get(windlass_config(), "size"), 0) == 3);
    windlass_warn("called", "at", windlass_now(), NULL);
    return json_at(object, "/metadata/namespace") == NULL ? windlass_terminal("no") : windlass_requeue_after(1000);
}

static windlass_result map(windlass_cluster *cluster, windlass_kind kind, const json *objects, windlass_requests *requests) {
    assert(cluster != NULL && strcmp(kind.kind, "ConfigMap") == 0);
    windlass_add_request(requests, (windlass_request){"beta", windlass_key_of(objects->first)});
    return windlass_done();
}

WINDLASS_MAPPED_RECONCILER(describe, reconcile, map)

static json *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    static char text[1 << 16];
    assert(file != NULL);
    json *value = json_parse(text, fread(text, 1, sizeof text, file), NULL);
    fclose(file);
    assert(value != NULL);
    return value;
}

/* The host: sends what it shall, and compares what comes. */
static int serve(int listener, const json *exchanges) {
    FILE *guest = fdopen(accept(listener, NULL, NULL), "r+");
    char *line = NULL;
    size_t room = 0;
    json_each(exchange, exchanges) {
        fprintf(guest, "%s\n", json_print(json_at(exchange, "/0")));
        fflush(guest);
        ssize_t length = getline(&line, &room, guest);
        json *sent = length <= 0 ? NULL : json_parse(line, (size_t)length, NULL);
        if (sent == NULL || !json_same(sent, json_at(exchange, "/1"))) {
            fprintf(stderr, "for\n  %s\ngot\n  %sinstead of\n  %s\n", json_print(json_at(exchange, "/0")), line,
                    json_print(json_at(exchange, "/1")));
            return 1;
        }
    }
    return 0;
}

int main(int count, char **paths) {
    assert(count == 2);
    const json *exchanges = read_file(paths[1]);
    char folder[] = "/tmp/windlass-native-XXXXXX";
    assert(mkdtemp(folder) != NULL && chdir(folder) == 0 && mkdir(".windlass", 0700) == 0);
    assert(native_main() == 1); /* there is no host */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert(bind(listener, (const struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
    FILE *file = fopen(".windlass/native", "w");
    assert(file != NULL && fputs(address.sun_path, file) >= 0 && fclose(file) == 0);
    size_t lines_of_host = json_count(exchanges); /* the memory of calls is released */
    pid_t server = fork();
    if (server == 0) {
        _exit(serve(listener, exchanges));
    }
    close(listener);
    int ended = native_main(), status;
    assert(waitpid(server, &status, 0) == server && WIFEXITED(status) && WEXITSTATUS(status) == 0 && ended == 0);
    assert(unlink(".windlass/native") == 0 && rmdir(".windlass") == 0 && unlink("socket") == 0 && rmdir(folder) == 0);
    printf("%zu lines of a guest as a process passed in C\n", lines_of_host);
    return 0;
}
