/* The program whose clusters a test uses. Entry point: program_connect. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "lines.h"

/* Makes a fleet in the program, which the first call of a process starts. Ends the process with the way to get the program if it
 * cannot be started. */
lines *program_connect(void);
/* Does something for the test, and returns its value. Ends the process with the reason if it fails: a test's own mistake. */
json *program_ask(lines *program, json *asked);
/* Calls a host function. Ends the process with the reason where a component would trap. */
json *program_call(lines *program, json *function);

#endif
