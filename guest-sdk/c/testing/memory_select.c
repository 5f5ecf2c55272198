/* Selectors over objects in memory, as kubectl writes them. Entry points: memory_labels_match and memory_fields_match. */

#include <string.h>

#include "memory.h"

static const char *const SPACES = " \t\r\n";

/* A copy of a part of a text, without the spaces around it. */
static const char *trimmed(const char *from, size_t length) {
    while (length > 0 && strchr(SPACES, from[0]) != NULL) {
        from++;
        length--;
    }
    while (length > 0 && strchr(SPACES, from[length - 1]) != NULL) {
        length--;
    }
    return windlass_format("%.*s", (int)length, from);
}

/* The next requirement, which ends at a comma that is not inside parentheses; the selector is moved past it. NULL after the last
 * one. */
static const char *next_requirement(const char **selector) {
    while (*selector != NULL && **selector != '\0') {
        const char *from = *selector, *to = from;
        for (int depth = 0; *to != '\0' && (*to != ',' || depth > 0); to++) {
            depth += *to == '(' ? 1 : *to == ')' && depth > 0 ? -1 : 0;
        }
        *selector = *to == '\0' ? to : to + 1;
        const char *requirement = trimmed(from, (size_t)(to - from));
        if (requirement[0] != '\0') {
            return requirement;
        }
    }
    return NULL;
}

/* A requirement a=b, a==b or a!=b. */
typedef struct {
    const char *name, *value;
    bool equal;
} comparison;

/* Whether it is one. */
static bool read_comparison(const char *requirement, comparison *made) {
    size_t length = strcspn(requirement, "=!");
    const char *sign = requirement + length;
    if (sign[0] == '\0' || (sign[0] == '!' && sign[1] != '=')) {
        return false;
    }
    made->equal = sign[0] == '=';
    const char *value = sign + (sign[1] == '=' ? 2 : 1);
    made->name = trimmed(requirement, length);
    made->value = trimmed(value, strlen(value));
    return true;
}

/* Whether a text can be a key, or a value, of a label selector. A value may be empty. */
static bool is_word(const char *text) {
    return text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789./_-")] == '\0';
}

static bool is_key(const char *text) {
    return text[0] != '\0' && is_word(text);
}

/* A requirement a in (b,c) or a notin (b,c). Returns whether it is one. */
static bool set_matches(const char *requirement, const json *labels, bool *match) {
    size_t end = strlen(requirement), name_end = strcspn(requirement, SPACES), open = strcspn(requirement, "(");
    const char *name = trimmed(requirement, name_end);
    const char *verb = name_end < open ? trimmed(requirement + name_end, open - name_end) : "";
    bool in = strcmp(verb, "in") == 0;
    if (open == end || requirement[end - 1] != ')' || !is_key(name) || (!in && strcmp(verb, "notin") != 0)) {
        return false;
    }
    const char *value = json_text(json_get(labels, name));
    bool found = false;
    for (size_t at = open + 1; at < end; at++) {
        size_t length = strcspn(requirement + at, ",");
        length = at + length < end ? length : end - 1 - at;
        const char *wanted = trimmed(requirement + at, length);
        if (!is_word(wanted)) {
            return false;
        }
        found = found || sdk_same_text(wanted, value);
        at += length;
    }
    *match = found == in;
    return true;
}

static windlass_error *label_matches(const char *requirement, const json *labels, bool *match) {
    comparison compared;
    if (read_comparison(requirement, &compared) && is_key(compared.name) && is_word(compared.value)) {
        *match = sdk_same_text(json_text(json_get(labels, compared.name)), compared.value) == compared.equal;
        return NULL;
    }
    bool absent = requirement[0] == '!';
    const char *name = absent ? trimmed(requirement + 1, strlen(requirement + 1)) : requirement;
    if (is_key(name)) {
        *match = (json_get(labels, name) == NULL) == absent;
        return NULL;
    }
    if (set_matches(requirement, labels, match)) {
        return NULL;
    }
    return memory_invalid(windlass_format("\"%s\" is not a label selector", requirement));
}

static windlass_error *field_matches(const char *requirement, const json *object, bool *match) {
    comparison compared;
    if (!read_comparison(requirement, &compared) || strchr(compared.value, '=') != NULL) {
        return memory_invalid(windlass_format("\"%s\" is not a field selector", requirement));
    }
    bool name = strcmp(compared.name, "metadata.name") == 0;
    if (!name && strcmp(compared.name, "metadata.namespace") != 0) {
        return memory_invalid(windlass_format("a cluster in memory does not select by the field \"%s\"", compared.name));
    }
    const char *found = json_text_at(object, name ? "/metadata/name" : "/metadata/namespace");
    *match = sdk_same_text(found, compared.value) == compared.equal;
    return NULL;
}

/* Whether every requirement of a selector matches. A wrong one after one that does not match is refused too. */
static windlass_error *all_match(const char *selector, windlass_error *(*matches)(const char *, const json *, bool *),
                                 const json *value, bool *match) {
    *match = true;
    for (const char *requirement; (requirement = next_requirement(&selector)) != NULL;) {
        bool each;
        windlass_error *error = matches(requirement, value, &each);
        if (error != NULL) {
            return error;
        }
        *match = *match && each;
    }
    return NULL;
}

windlass_error *memory_check_selectors(const char *labels, const char *fields) {
    bool match;
    windlass_error *error = memory_labels_match(labels, NULL, &match);
    return error != NULL ? error : memory_fields_match(fields, NULL, &match);
}

windlass_error *memory_labels_match(const char *selector, const json *labels, bool *match) {
    return all_match(selector, label_matches, labels, match);
}

windlass_error *memory_fields_match(const char *selector, const json *object, bool *match) {
    return all_match(selector, field_matches, object, match);
}
