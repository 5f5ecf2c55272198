/* JSON: reading and writing text. json.c is about the tree. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "windlass.h"

/* Values within values. */
#define DEEPEST 128

typedef struct {
    const char *at, *end;
    const char *why;
    /* The tree that was read so far. */
    json *whole;
} reader;

static json *read_value(reader *from, int depth);

static json *fail(reader *from, const char *why) {
    if (from->why == NULL) {
        from->why = why;
    }
    return NULL;
}

static void skip_space(reader *from) {
    while (from->at < from->end && (*from->at == ' ' || *from->at == '\t' || *from->at == '\n' || *from->at == '\r')) {
        from->at++;
    }
}

static bool take(reader *from, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(from->end - from->at) < length || memcmp(from->at, word, length) != 0) {
        return false;
    }
    from->at += length;
    return true;
}

static bool is_digit(const reader *from) {
    return from->at < from->end && *from->at >= '0' && *from->at <= '9';
}

static void skip_digits(reader *from) {
    while (is_digit(from)) {
        from->at++;
    }
}

static json *read_number(reader *from) {
    const char *start = from->at;
    take(from, "-");
    if (!is_digit(from)) {
        return fail(from, "expected a value");
    }
    if (!take(from, "0")) {
        skip_digits(from);
    }
    if (take(from, ".")) {
        if (!is_digit(from)) {
            return fail(from, "expected digits after the point of a number");
        }
        skip_digits(from);
    }
    if (take(from, "e") || take(from, "E")) {
        if (!take(from, "+")) {
            take(from, "-");
        }
        if (!is_digit(from)) {
            return fail(from, "expected digits in the exponent of a number");
        }
        skip_digits(from);
    }
    json *made = json_null();
    made->type = JSON_NUMBER;
    made->length = (size_t)(from->at - start);
    char *text = windlass_alloc(made->length + 1);
    memcpy(text, start, made->length);
    made->text = text;
    return made;
}

/* The value of four hexadecimal digits; -1 for other characters. */
static long read_hex(reader *from) {
    long value = 0;
    for (int digit = 0; digit < 4; digit++, from->at++) {
        if (from->at == from->end) {
            return -1;
        }
        char c = *from->at;
        int one = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (one < 0) {
            return -1;
        }
        value = value * 16 + one;
    }
    return value;
}

static char *put_utf8(char *to, long point) {
    if (point < 0x80) {
        *to++ = (char)point;
    } else if (point < 0x800) {
        *to++ = (char)(0xc0 | point >> 6);
        *to++ = (char)(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        *to++ = (char)(0xe0 | point >> 12);
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    } else {
        *to++ = (char)(0xf0 | point >> 18);
        *to++ = (char)(0x80 | (point >> 12 & 0x3f));
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    }
    return to;
}

/* The character of an escape; NULL for an unknown escape. */
static char *read_escape(reader *from, char *to) {
    static const char short_forms[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (from->at == from->end) {
        return NULL;
    }
    char c = *from->at++;
    if (c != 'u') {
        const char *found = c == '\0' ? NULL : strchr(short_forms, c);
        if (found == NULL) {
            return NULL;
        }
        *to = meanings[found - short_forms];
        return to + 1;
    }
    long point = read_hex(from);
    if (point >= 0xd800 && point < 0xdc00 && take(from, "\\u")) {
        long low = read_hex(from);
        if (low < 0xdc00 || low > 0xdfff) {
            return NULL;
        }
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    if (point < 0 || (point >= 0xd800 && point < 0xe000)) {
        return NULL;
    }
    return put_utf8(to, point);
}

/* Text after its opening quote; NULL if it is wrong. */
static char *read_text(reader *from, size_t *length) {
    const char *close = from->at;
    while (close < from->end && *close != '"') {
        close += *close == '\\' ? 2 : 1;
    }
    if (close >= from->end) {
        fail(from, "a text does not end");
        return NULL;
    }
    char *text = windlass_alloc((size_t)(close - from->at) + 1), *to = text;
    while (from->at < close) {
        if ((unsigned char)*from->at < 0x20) {
            fail(from, "a control character in a text");
            return NULL;
        }
        if (*from->at != '\\') {
            *to++ = *from->at++;
            continue;
        }
        from->at++;
        to = read_escape(from, to);
        if (to == NULL) {
            fail(from, "an escape in a text that means nothing");
            return NULL;
        }
    }
    from->at = close + 1;
    *length = (size_t)(to - text);
    return text;
}

static json *read_string(reader *from) {
    size_t length = 0;
    char *text = read_text(from, &length);
    if (text == NULL) {
        return NULL;
    }
    json *made = json_null();
    made->type = JSON_STRING;
    made->text = text;
    made->length = length;
    return made;
}

/* Adds a value that was just read. */
static void add(json *into, const char *name, json *value) {
    value->name = name;
    value->linked = true;
    if (into->last == NULL) {
        into->first = value;
    } else {
        into->last->next = value;
    }
    into->last = value;
}

/* A member and its position. */
typedef struct {
    json *member;
    size_t place;
} placed;

static int by_name_and_place(const void *one, const void *other) {
    const placed *first = one, *second = other;
    int names = strcmp(first->member->name, second->member->name);
    return names != 0 ? names : first->place < second->place ? -1 : 1;
}

/* Keeps one member of each name: the last value, at the first position. */
static void drop_repeated(json *object, size_t count) {
    placed *members = malloc((count + 1) * sizeof *members);
    if (members == NULL) {
        fputs("windlass: out of memory\n", stderr);
        abort();
    }
    size_t place = 0;
    json_each(member, object) {
        members[place] = (placed){member, place};
        place++;
    }
    qsort(members, count, sizeof *members, by_name_and_place);
    bool repeated = false;
    for (size_t at = 1, first = 0; at < count; at++) {
        json *kept = members[first].member, *later = members[at].member;
        if (strcmp(kept->name, later->name) != 0) {
            first = at;
            continue;
        }
        json *next = kept->next;
        const char *name = kept->name;
        *kept = *later;
        kept->next = next;
        kept->name = name;
        later->name = NULL;
        repeated = true;
    }
    free(members);
    if (!repeated) {
        return;
    }
    json *last = NULL;
    json_each(member, object) {
        if (member->name == NULL) {
            last->next = member->next;
        } else {
            last = member;
        }
    }
    object->last = last;
}

static json *read_many(reader *from, json *into, const char *close, int depth) {
    size_t count = 0;
    if (from->whole == NULL) {
        from->whole = into;
    }
    skip_space(from);
    if (take(from, close)) {
        return into;
    }
    for (;;) {
        const char *name = NULL;
        if (into->type == JSON_OBJECT) {
            size_t length = 0;
            skip_space(from);
            name = take(from, "\"") ? read_text(from, &length) : NULL;
            skip_space(from);
            /* A name is a C string. */
            if (name != NULL && strlen(name) != length) {
                return fail(from, "a name with \\u0000");
            }
            if (name == NULL || !take(from, ":")) {
                return fail(from, "expected a name and a colon");
            }
        }
        json *value = read_value(from, depth);
        if (value == NULL) {
            return NULL;
        }
        add(into, name, value);
        count++;
        skip_space(from);
        if (take(from, close)) {
            if (into->type == JSON_OBJECT && count > 1) {
                drop_repeated(into, count);
            }
            return into;
        }
        if (!take(from, ",")) {
            return fail(from, "expected a comma or an end");
        }
    }
}

static json *read_value(reader *from, int depth) {
    if (depth == DEEPEST) {
        return fail(from, "too many values within values");
    }
    skip_space(from);
    if (take(from, "{")) {
        return read_many(from, json_object(), "}", depth + 1);
    }
    if (take(from, "[")) {
        return read_many(from, json_array(), "]", depth + 1);
    }
    if (take(from, "\"")) {
        return read_string(from);
    }
    if (take(from, "true")) {
        return json_bool(true);
    }
    if (take(from, "false")) {
        return json_bool(false);
    }
    if (take(from, "null")) {
        return json_null();
    }
    return read_number(from);
}

json *json_begun(const char *text, size_t length, const char **why, const json **begun) {
    reader from = {text, text + length, NULL, NULL};
    json *value = read_value(&from, 0);
    skip_space(&from);
    if (value != NULL && from.at != from.end) {
        value = fail(&from, "something follows the value");
    }
    if (value == NULL && why != NULL) {
        *why = windlass_format("%s, at byte %zu", from.why, (size_t)(from.at - text));
    }
    if (begun != NULL) {
        *begun = from.whole;
    }
    return value;
}

json *json_parse(const char *text, size_t length, const char **why) {
    return json_begun(text, length, why, NULL);
}

json *json_literal(const char *text) {
    const char *why = NULL;
    json *value = json_parse(text, strlen(text), &why);
    if (value == NULL) {
        fprintf(stderr, "windlass: json_literal: %s: %s\n", why, text);
        abort();
    }
    return value;
}

typedef struct {
    char *text;
    size_t length, size;
} writer;

static void put(writer *to, const char *text, size_t length) {
    if (to->size - to->length <= length) {
        size_t size = (to->length + length + 1) * 2;
        char *larger = realloc(to->text, size);
        if (larger == NULL) {
            fputs("windlass: out of memory\n", stderr);
            abort();
        }
        to->text = larger;
        to->size = size;
    }
    memcpy(to->text + to->length, text, length);
    to->length += length;
}

static void put_text(writer *to, const char *text, size_t length) {
    put(to, "\"", 1);
    for (const char *at = text, *end = text + length; at < end;) {
        const char *plain = at;
        while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20) {
            at++;
        }
        put(to, plain, (size_t)(at - plain));
        if (at < end) {
            char escape[8];
            int written = *at == '"' || *at == '\\' ? snprintf(escape, sizeof escape, "\\%c", *at)
                                                    : snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*at);
            put(to, escape, (size_t)written);
            at++;
        }
    }
    put(to, "\"", 1);
}

static void put_value(writer *to, const json *value) {
    switch (value->type) {
    case JSON_NULL:
        put(to, "null", 4);
        return;
    case JSON_BOOL:
        put(to, value->boolean ? "true" : "false", value->boolean ? 4 : 5);
        return;
    case JSON_NUMBER:
        put(to, value->text, value->length);
        return;
    case JSON_STRING:
        put_text(to, value->text, value->length);
        return;
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    bool object = value->type == JSON_OBJECT;
    put(to, object ? "{" : "[", 1);
    json_each(part, value) {
        if (part != value->first) {
            put(to, ",", 1);
        }
        if (object) {
            put_text(to, part->name, strlen(part->name));
            put(to, ":", 1);
        }
        put_value(to, part);
    }
    put(to, object ? "}" : "]", 1);
}

char *json_print(const json *value) {
    writer to = {0};
    if (value == NULL) {
        put(&to, "null", 4);
    } else {
        put_value(&to, value);
    }
    char *text = windlass_alloc(to.length + 1);
    memcpy(text, to.text, to.length);
    free(to.text);
    return text;
}
