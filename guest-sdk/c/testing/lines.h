/*
 * A connection to the program windlass over a Unix socket: a line of JSON each way, as guest-sdk/protocol.md of the repository
 * says. Entry point: lines_open.
 */
#ifndef LINES_H
#define LINES_H

#include "windlass_json.h"

typedef struct lines lines;

/* Connects to the socket at a path; NULL if nothing listens there. */
lines *lines_open(const char *path);
/* Sends a message. If the program has gone, the next one that is received is NULL. */
void lines_send(lines *to, const json *message);
/* The next message; NULL if the program has gone. */
json *lines_receive(lines *from);

#endif
