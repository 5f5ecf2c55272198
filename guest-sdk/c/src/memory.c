/* The memory of a call: blocks that grow and are freed together. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "windlass.h"

/* Usual size of a block, including its header. */
#define BLOCK ((size_t)16 * 1024)
#define ALIGNMENT ((size_t)16)

typedef struct block {
    struct block *before;
    size_t size;
    size_t used;
    /* Aligns the following bytes on every target. */
    size_t padding;
} block;

/* The newest block. */
static block *newest;

static char *bytes(block *of) {
    return (char *)of + sizeof(block);
}

static block *grow(size_t size) {
    size_t whole = size + sizeof(block) > BLOCK ? size + sizeof(block) : BLOCK;
    block *made = whole < size ? NULL : malloc(whole);
    if (made == NULL) {
        fputs("windlass: out of memory\n", stderr);
        abort();
    }
    *made = (block){.before = newest, .size = whole - sizeof(block)};
    newest = made;
    return made;
}

void *windlass_alloc(size_t size) {
    size_t rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    block *from = newest;
    if (from == NULL || from->size - from->used < rounded) {
        from = grow(rounded < size ? size : rounded);
    }
    void *made = bytes(from) + from->used;
    from->used += rounded;
    return memset(made, 0, size);
}

windlass_mark_t windlass_mark(void) {
    return (windlass_mark_t){newest, newest == NULL ? 0 : newest->used};
}

void windlass_release(windlass_mark_t mark) {
    if (!backend_frees()) {
        return;
    }
    while (newest != mark.block) {
        block *freed = newest;
        newest = freed->before;
        free(freed);
    }
    if (newest != NULL) {
        newest->used = mark.used;
    }
}

char *windlass_vformat(const char *format, va_list values) {
    va_list again;
    va_copy(again, values);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) {
        return windlass_alloc(1);
    }
    char *text = windlass_alloc((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, values);
    return text;
}

char *windlass_format(const char *format, ...) {
    va_list values;
    va_start(values, format);
    char *text = windlass_vformat(format, values);
    va_end(values);
    return text;
}
