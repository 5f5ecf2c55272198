/* A connection to the program windlass. Entry point: lines_open. */

#define _POSIX_C_SOURCE 200809L

#include "lines.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend.h"

struct lines {
    int socket;
    /* The same socket, to read from. */
    FILE *input;
};

lines *lines_open(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        return NULL;
    }
    memcpy(address.sun_path, path, strlen(path));
    int opened = socket(AF_UNIX, SOCK_STREAM, 0);
    if (opened < 0 || connect(opened, (const struct sockaddr *)&address, sizeof address) != 0) {
        return NULL;
    }
    /* A program that has gone is told by its silence. */
    signal(SIGPIPE, SIG_IGN);
    /* Not in the memory of a call: it outlives them. */
    lines *made = malloc(sizeof *made);
    if (made == NULL) {
        abort();
    }
    *made = (lines){opened, fdopen(opened, "r")};
    return made;
}

void lines_send(lines *to, const json *message) {
    const char *text = windlass_format("%s\n", well_formed(json_print(message)));
    size_t length = strlen(text);
    for (size_t sent = 0; sent < length;) {
        ssize_t more = write(to->socket, text + sent, length - sent);
        if (more < 0) {
            return;
        }
        sent += (size_t)more;
    }
}

json *lines_receive(lines *from) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length = getline(&line, &room, from->input);
    json *message = length <= 0 ? NULL : json_parse(line, (size_t)length, NULL);
    free(line);
    return message;
}
