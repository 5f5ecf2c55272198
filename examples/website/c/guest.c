/* Runs websites: for each a page, its servers, their address, and an entry for the gateway. */

#include <windlass.h>

static const windlass_kind WEBSITE = {"example.windlass.dev", "v1", "Website"};

/* The kinds of the parts of a Website, as indexes of KINDS. */
enum { CONFIG_MAP, DEPLOYMENT, SERVICE, KIND_COUNT };

static const windlass_kind KINDS[] = {
    [CONFIG_MAP] = {"", "v1", "ConfigMap"},
    [DEPLOYMENT] = {"apps", "v1", "Deployment"},
    [SERVICE] = {"", "v1", "Service"},
};

/* A Website cannot own the entry, which is in another namespace: the finalizer waits for its deletion. */
static const windlass_dependents PARTS = {
    .kinds = KINDS,
    .kind_count = KIND_COUNT,
    .finalizer = "example.windlass.dev/gateway",
};

/* The server of a page. */
static const char SERVER[] = "{\"name\": \"server\", \"image\": \"nginx:1.29\", \"ports\": [{\"containerPort\": 80}],"
                             " \"volumeMounts\": [{\"name\": \"page\", \"mountPath\": \"/usr/share/nginx/html\"}]}";

static windlass_result describe(windlass_description *description) {
    description->title = "runs websites";
    windlass_add_watch(description, (windlass_watch){.kind = WEBSITE});
    windlass_add_dependents(description, &PARTS);
    return windlass_done();
}

static windlass_result reconcile(const windlass_request *request, windlass_cluster *cluster) {
    windlass_key key = request->key;
    json *site;
    WINDLASS_TRY(windlass_get(cluster, WEBSITE, key, NULL, &site));
    if (site == NULL) {
        return windlass_done();
    }
    json *labels = json_set(json_object(), "website", json_string(key.name));
    const char *host = json_text_at(site, "/spec/host");

    json *page = windlass_object(KINDS[CONFIG_MAP], key);
    json_set_at(page, "/data/index.html", json_at(site, "/spec/html"));

    json *servers = windlass_object(KINDS[DEPLOYMENT], key);
    json_set_at(servers, "/spec/replicas", json_at(site, "/spec/replicas"));
    json_set_at(servers, "/spec/selector/matchLabels", labels);
    json_set_at(servers, "/spec/template/metadata/labels", labels);
    json_set_at(servers, "/spec/template/spec/containers", json_append(json_array(), json_literal(SERVER)));
    json *volume = json_set(json_object(), "name", json_string("page"));
    json_set_at(volume, "/configMap/name", json_string(key.name));
    json_set_at(servers, "/spec/template/spec/volumes", json_append(json_array(), volume));

    json *address = windlass_object(KINDS[SERVICE], key);
    json_set_at(address, "/spec/selector", labels);
    json_set_at(address, "/spec/ports", json_literal("[{\"port\": 80}]"));

    windlass_key at_gateway = {"gateway", windlass_format("%s.%s", key.ns, key.name)};
    json *entry = windlass_object(KINDS[CONFIG_MAP], at_gateway);
    json_set_at(entry, "/data/host", json_string(host));
    json_set_at(entry, "/data/address", json_string(windlass_format("%s.%s.svc", key.name, key.ns)));

    json *desired = json_array();
    json_append(desired, page);
    json_append(desired, servers);
    json_append(desired, address);
    json_append(desired, entry);
    windlass_dependents parts = PARTS;
    parts.status = json_set(json_object(), "url", json_string(windlass_format("http://%s", host)));
    return windlass_reconcile_dependents(cluster, site, desired, &parts);
}

WINDLASS_RECONCILER(describe, reconcile)
