/* The program whose clusters a test uses: `windlass fleet`, started once for a process. Entry point: program_connect. */

#define _POSIX_C_SOURCE 200809L

#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire.h"

extern char **environ;

/* Names the program. */
#define VARIABLE "WINDLASS_BIN"

/* The path of its socket; NULL until it is started. */
static const char *socket_path;

static void fail(const char *message) {
    fprintf(stderr, "%s\n", message);
    exit(1);
}

/* A pipe that no other process has. */
static void open_pipe(int ends[2]) {
    if (pipe(ends) != 0 || fcntl(ends[0], F_SETFD, FD_CLOEXEC) != 0 || fcntl(ends[1], F_SETFD, FD_CLOEXEC) != 0) {
        fail(windlass_format("no pipe to the program windlass: %s", strerror(errno)));
    }
}

/* Starts the program, and returns its standard output. It ends with its standard input, and so with this process. */
static FILE *start(void) {
    const char *program = getenv(VARIABLE);
    if (program == NULL || program[0] == '\0') {
        program = "windlass";
    }
    int input[2], output[2];
    open_pipe(input);
    open_pipe(output);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], 0);
    posix_spawn_file_actions_adddup2(&actions, output[1], 1);
    char *arguments[] = {windlass_format("%s", program), windlass_format("fleet"), NULL};
    pid_t process;
    int failed = posix_spawnp(&process, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    if (failed != 0) {
        fail(windlass_format("the clusters of a test are those of the program windlass, and %s cannot be started: %s; "
                             "put it on the PATH, or name it in " VARIABLE,
                             program, strerror(failed)));
    }
    return fdopen(output[0], "r");
}

lines *program_connect(void) {
    if (socket_path == NULL) {
        FILE *output = start();
        char *line = NULL;
        size_t room = 0;
        ssize_t length = getline(&line, &room, output);
        if (length <= 0) {
            fail("windlass fleet did not start: its message is above");
        }
        socket_path = windlass_format("%.*s", (int)length - 1, line);
        free(line);
    }
    lines *connected = lines_open(socket_path);
    if (connected == NULL) {
        fail("windlass fleet has ended");
    }
    return connected;
}

static json *exchange(lines *program, json *message) {
    lines_send(program, message);
    json *answer = lines_receive(program);
    if (answer == NULL) {
        fail("windlass fleet has ended");
    }
    return answer;
}

json *program_ask(lines *program, json *asked) {
    json *answer = exchange(program, wire_case("Test", asked));
    const char *problem = json_text_at(answer, "/Err");
    if (problem != NULL) {
        fail(problem);
    }
    return json_get(answer, "Ok");
}

json *program_call(lines *program, json *function) {
    json *answer = exchange(program, wire_case("Call", function));
    const char *problem = json_text_at(answer, "/Trap");
    if (problem != NULL) {
        fail(problem);
    }
    return answer;
}
