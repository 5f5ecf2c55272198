/* Changes objects of the odd kind by the names of their fields. */

#include <windlass.h>

#include "odd_types.h"

/* What a test runs in the place of the guest; NULL: nothing. */
windlass_result (*instead)(const windlass_request *request, windlass_cluster *cluster);

static windlass_result describe(windlass_description *description) {
    description->title = "changes odds";
    windlass_add_watch(description, (windlass_watch){.kind = ODD_KIND});
    return windlass_done();
}

/* Writes the object that was read, and then a patch. */
static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    json *odd;
    if (instead != NULL) {
        return instead(request, cluster);
    }
    WINDLASS_TRY(windlass_get(cluster, ODD_KIND, request->key, NULL, &odd));
    json_set_at(odd, ODD_SPEC_HOST, json_string("other"));
    json_each(port, json_at(odd, ODD_SPEC_PORTS)) {
        long long number = json_integer(json_at(port, ODD_SPEC_BY_NAME_ITEM_PORT), 0);
        json_set_at(port, ODD_SPEC_BY_NAME_ITEM_PORT, json_number(number + 8000));
    }
    WINDLASS_TRY(windlass_update(cluster, odd, NULL, NULL));
    json *patch = json_set_at(json_object(), ODD_SPEC_CLASS, json_string(ODD_SPEC_CLASS_PLAIN));
    WINDLASS_TRY(windlass_patch(cluster, ODD_KIND, request->key, WINDLASS_MERGE, patch, NULL, NULL));
    return windlass_done();
}

WINDLASS_RECONCILER(describe, reconcile)
