/* The names of fields lead to their values, and fields that no name leads to are kept. The object and the object after the guest's changes
 * are in files. */

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <windlass_memory.h>

#include "headers.h"

static const windlass_key KEY = {"default", "a"};

static json *of_file(const char *name) {
    static char text[1 << 16];
    FILE *file = fopen(name, "r");
    assert(file != NULL);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    json *object = json_parse(text, length, NULL);
    assert(object != NULL);
    return object;
}

static void names_lead_to_values(const json *odd) {
    const char *texts[][2] = {
        {ODD_SPEC_HOST, "h"},        {ODD_SPEC_CLASS, ODD_SPEC_CLASS_A_B}, {ODD_SPEC_TYPE, "t"},
        {ODD_SPEC_SELF, "s"},        {ODD_SPEC_X_Y, "x"},                  {ODD_SPEC_REF, "r"},
        {ODD_SPEC_N2ND, "2"},        {ODD_SPEC_DUNDER, "d"},               {ODD_SPEC_FOO_BAR, "1"},
        {ODD_SPEC_FOO_BAR2, "2"},    {ODD_SPEC_METADATA, "m"},             {ODD_SPEC_KIND, "k"},
        {ODD_SPEC_LIMIT, "50%"},     {ODD_SPEC_OPEN_KNOWN, "k"},           {ODD_SPEC_LABELS "/c", "d"},
        {ODD_SPEC_PORTS "/0" ODD_SPEC_PORTS_ITEM_TARGET, "web"},           {ODD_SPEC_SOLVER_DNS_ZONE, "z"},
    };
    for (size_t at = 0; at < sizeof texts / sizeof texts[0]; at++) {
        const char *text = json_text_at(odd, texts[at][0]);
        assert(text != NULL && strcmp(text, texts[at][1]) == 0);
    }
    assert(json_integer(json_at(odd, ODD_SPEC_REPLICAS), 0) == 3);
    assert(json_at(odd, ODD_SPEC_SOLVER_HTTP_PATH) == NULL);
    assert(json_is_true(json_at(odd, ODD_STATUS_READY)));
    json_each(port, json_at(odd, ODD_SPEC_BY_NAME)) {
        assert(json_integer(json_at(port, ODD_SPEC_BY_NAME_ITEM_PORT), 0) == 1);
    }
}

static void what_has_no_name_is_kept(const json *odd, const json *changed) {
    windlass_memory_cluster *alpha = windlass_memory_add(windlass_memory_new(), "alpha");
    windlass_memory_put(alpha, odd);
    assert(windlass_memory_reconcile(alpha, windlass_this_guest.reconcile, KEY).outcome == WINDLASS_RESULT_DONE);
    const json *stored = windlass_memory_get(alpha, ODD_KIND, KEY);
    assert(json_same(json_at(stored, ODD_SPEC), json_at(changed, ODD_SPEC)));
    assert(json_same(json_at(stored, "/later"), json_at(changed, "/later")));
}

int main(void) {
    const json *odd = of_file("object.json");
    names_lead_to_values(odd);
    what_has_no_name_is_kept(odd, of_file("changed.json"));
    puts("2 tests passed");
    return 0;
}
