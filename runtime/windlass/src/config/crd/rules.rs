//! What the kinds' `check` refuses, as schemas say it: bounds of fields, and rules in CEL. Entry point: [`add`].
//!
//! Each stands by the type and the field that it is about. An API server refuses with these what a process would refuse when it reads the
//! object. `refused.json` has an object for each of them. Those of a Manager are for Helm, which knows no CEL: bounds of numbers, texts and lists.

use super::SchemaError;
use serde_json::{Value as Json, json};

/// The keyword of rules in CEL.
pub(super) const VALIDATIONS: &str = "x-kubernetes-validations";

/// A name of a namespace.
const NAMESPACE: &str = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";

/// A name of an image, and what a Tenant allows of them: the host is always written.
const IMAGE: &str = "^(oci://)?(localhost|[a-z0-9-]+[.:][a-z0-9.:-]+)/[a-z0-9._/-]+(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$";
const IMAGES: &str = "^(localhost|[*]|[*a-z0-9-]+[.:][*a-z0-9.:-]+)(/[*A-Za-z0-9._-]+)*/?$";

/// An IP address, in brackets if it has colons, and a port.
const ADDRESS: &str = "^([0-9.]+|\\[[0-9a-fA-F:.]+\\]):[0-9]{1,5}$";
/// Most of what has no other bound.
const MANY: u64 = u32::MAX as u64;

/// What holds for the value of a field.
enum Bound {
    /// A whole number within these.
    Number(u64, u64),
    /// A mapping to whole numbers within these.
    Numbers(u64, u64),
    /// A duration within these; an empty end is open.
    Duration(&'static str, &'static str),
    /// An amount of memory or of processors within these; an empty end is open.
    Quantity(&'static str, &'static str),
    /// A text that is not empty.
    Text,
    /// A text of this form, and what to write.
    Form(&'static str),
    /// A list that is not empty.
    List,
    /// A list of at most so many.
    AtMost(u64),
    /// A list of texts of this form.
    Each(&'static str),
    /// A list that is not empty, of texts of this form.
    ListOf(&'static str),
    /// A list that is not empty, of these words.
    Words(&'static [&'static str]),
    /// What the field is without a value.
    Filled(&'static str),
}

use Bound::{
    AtMost, Duration, Each, Filled, Form, List, ListOf, Number, Numbers, Quantity, Text, Words,
};

const BOUNDS: &[(&str, &str, Bound)] = &[
    ("ProviderSpec", "prefix", Form("^[ -\"$-~]+$")),
    ("HubSecretSpec", "namespace", Form(NAMESPACE)),
    ("HubSecretSpec", "name", Text),
    ("HubSecretSpec", "key", Text),
    ("HubSecretSpec", "key", Filled("kubeconfig")),
    ("HubSecretSpec", "context", Text),
    ("ReadySpec", "condition", Text),
    ("KubeconfigSecretsSpec", "namespaces", ListOf(NAMESPACE)),
    ("KubeconfigSecretsSpec", "key", Text),
    ("KubeconfigSecretsSpec", "key", Filled("kubeconfig")),
    ("KubeconfigSecretsSpec", "context", Text),
    ("ClusterApiSpec", "namespaces", ListOf(NAMESPACE)),
    ("ClusterProfilesSpec", "namespaces", ListOf(NAMESPACE)),
    ("ClusterProfilesSpec", "accessProviders", List),
    ("ApiExportSpec", "endpointSlice", Text),
    ("ApiExportSpec", "name", Text),
    ("ApiExportSpec", "path", Text),
    ("WorkspaceTypeSpec", "workspaceType", Text),
    ("TenantSpec", "weight", Number(1, 1000)),
    ("Impersonate", "user", Text),
    ("NamespaceClaim", "names", ListOf(NAMESPACE)),
    ("NamespaceClaim", "selector", Text),
    ("TenantClusters", "names", List),
    ("TenantClusters", "providers", List),
    ("TenantLimits", "memory", Quantity("1Mi", "")),
    ("TenantLimits", "concurrency", Number(1, u32::MAX as u64)),
    ("TenantLimits", "cpu", Quantity("10m", "1000")),
    ("TenantLimits", "requestsInFlight", Number(1, 100_000)),
    ("TenantLimits", "requestsPerSecond", Number(1, 1_000_000)),
    ("ReconcilerLimits", "memory", Quantity("1Mi", "256Mi")),
    ("ReconcilerLimits", "timeout", Duration("100ms", "1h")),
    (
        "ReconcilerLimits",
        "concurrency",
        Number(1, u32::MAX as u64),
    ),
    (
        "ReconcilerLimits",
        "concurrencyPerCluster",
        Number(1, u32::MAX as u64),
    ),
    ("ReconcilerLimits", "tableElements", Number(1000, 240_000)),
    ("ReconcilerLimits", "handles", Number(8, 100_000)),
    ("ReconcilerLimits", "hostCalls", Number(1, 10_000_000)),
    ("ReconcilerLimits", "hostCallBytes", Quantity("4Ki", "64Mi")),
    ("ReconcilerLimits", "objectBytes", Quantity("4Ki", "64Mi")),
    (
        "ReconcilerLimits",
        "responseBytes",
        Quantity("4Ki", "128Mi"),
    ),
    ("ReconcilerLimits", "listItems", Number(1, 5000)),
    ("ReconcilerLimits", "batchOperations", Number(1, 10_000)),
    (
        "ReconcilerLimits",
        "requestsPerSecond",
        Number(1, 1_000_000),
    ),
    ("ReconcilerLimits", "logBytes", Quantity("1Ki", "16Mi")),
    (
        "ReconcilerLimits",
        "logBytesPerSecond",
        Quantity("1Ki", "64Mi"),
    ),
    ("ReuseSpec", "calls", Number(1, 1_000_000)),
    ("ReuseSpec", "age", Duration("1s", "24h")),
    ("ReuseSpec", "memory", Quantity("1Mi", "256Mi")),
    ("ReuseSpec", "idle", Number(1, 64)),
    ("GuestSpec", "name", Text),
    ("GuestSpec", "image", Form(IMAGE)),
    ("GuestSpec", "digest", Form("^sha256:[0-9a-f]{64}$")),
    ("GuestSpec", "interval", Duration("10s", "24h")),
    ("PullSecretSpec", "name", Text),
    ("GuestsSpec", "registries", AtMost(100)),
    ("GuestsSpec", "registries", Each(IMAGES)),
    ("SignaturesSpec", "keys", List),
    ("SignaturesSpec", "keys", AtMost(100)),
    ("ConfigSource", "secret", Form("^[^/]+$")),
    ("ConfigSource", "configMap", Form("^[^/]+$")),
    ("ConfigSource", "key", Form("^[^/]+$")),
    ("ReconcilerSpec", "configFrom", AtMost(16)),
    ("ReconcilerSpec", "resync", Duration("10s", "")),
    ("ClustersSpec", "names", List),
    ("RuleSpec", "apiGroups", List),
    ("RuleSpec", "resources", ListOf("^[^A-Z\\s]+$")),
    (
        "RuleSpec",
        "verbs",
        Words(&[
            "get",
            "list",
            "watch",
            "create",
            "update",
            "patch",
            "delete",
            "deletecollection",
            "*",
        ]),
    ),
    ("RuleSpec", "namespaces", List),
    // Of a Manager, which is no object of a cluster: in the values of the chart.
    ("ConcurrencySpec", "global", Number(1, MANY)),
    ("ConcurrencySpec", "perCluster", Number(1, MANY)),
    ("ConcurrencySpec", "kinds", Numbers(1, MANY)),
    ("AdminSpec", "address", Form(ADDRESS)),
    ("AdminSpec", "probeAddress", Form(ADDRESS)),
    ("AdminSpec", "metricsAddress", Form(ADDRESS)),
    ("AdminSpec", "audiences", AtMost(10)),
    ("AdminSpec", "audiences", Each("^.")),
    ("AdminSpec", "allowHosts", AtMost(100)),
    ("AdminSpec", "allowHosts", Each("^[A-Za-z0-9._-]{1,253}$")),
    ("TransportSpec", "requestsInFlight", Number(1, MANY)),
    ("TransportSpec", "watchesInFlight", Number(1, MANY)),
    ("TransportSpec", "requestsPerSecond", Number(1, 1_000_000)),
    ("TransportSpec", "maxConnections", Number(1, MANY)),
    ("CachesSpec", "page", Number(1, 10_000)),
    ("MetricsSpec", "clusters", Number(0, 100_000)),
    ("MetricsSpec", "pairs", Number(0, 1_000_000)),
    ("LeaderElectionSpec", "namespace", Text),
    ("LeaderElectionSpec", "name", Text),
    ("RegistriesSpec", "plainHttp", AtMost(100)),
    (
        "RegistriesSpec",
        "plainHttp",
        Each("^[a-z0-9.-]+(:[0-9]{1,5})?$"),
    ),
];

/// By type: a rule, and what a refusal says.
const RULES: &[(&str, &str, &str)] = &[
    (
        "ProviderSpec",
        "[has(self.kubeconfigFiles), has(self.single), has(self.kubeconfigSecret), has(self.kubeconfigSecrets), has(self.clusterAPI), \
         has(self.clusterProfiles), has(self.kind), has(self.namespaces), has(self.kcp), has(self.none)].filter(given, given).size() == 1",
        "give exactly one source: kubeconfigSecret, kubeconfigSecrets, clusterAPI, clusterProfiles, namespaces, kcp or none",
    ),
    (
        "ProviderSpec",
        "!has(self.kubeconfigFiles) && !has(self.single)",
        "kubeconfigFiles and single read files, and are for files only: give kubeconfigSecret or kubeconfigSecrets",
    ),
    (
        "ProviderSpec",
        "!has(self.kind)",
        "kind runs a program, and is for files only",
    ),
    (
        "ProviderSpec",
        "!has(self.exec)",
        "exec is for kubeconfigs in files only: leave it out",
    ),
    (
        "ProviderSpec",
        "!(has(self.allowServers) || (has(self.allowInsecure) && self.allowInsecure)) || !(has(self.none) || (has(self.namespaces) && \
         !(has(self.namespaces.from) && has(self.namespaces.from.kubeconfigSecret))))",
        "allowServers and allowInsecure are for kubeconfigs in objects, and this source reads none: leave them out",
    ),
    (
        "HubSpec",
        "!has(self.kubeconfig) && !has(self.context)",
        "a path is for files only: give kubeconfigSecret",
    ),
    (
        "HubSpec",
        "has(self.kubeconfigSecret)",
        "it names no cluster: give kubeconfigSecret, or leave it out for the local cluster",
    ),
    (
        "ReadySpec",
        "has(self.condition) != has(self.always) && (!has(self.always) || self.always)",
        "give a condition, or always: true",
    ),
    (
        "ClusterProfilesSpec",
        "has(self.accessProviders) != has(self.secrets)",
        "give exactly one of accessProviders and secrets",
    ),
    (
        "AccessProviderSpec",
        "!has(self.execConfig)",
        "execConfig names a program, and is for files only: leave it out, and name an access provider of the Manager",
    ),
    (
        "KcpSpec",
        "[has(self.apiExport), has(self.initializingWorkspaces), has(self.terminatingWorkspaces)].filter(given, given).size() == 1",
        "give exactly one of apiExport, initializingWorkspaces, terminatingWorkspaces",
    ),
    (
        "ApiExportSpec",
        "has(self.endpointSlice) ? !has(self.name) && !has(self.path) : has(self.name)",
        "give endpointSlice, or name and path of the export",
    ),
    (
        "NamespaceClaim",
        "has(self.names) != has(self.selector)",
        "give exactly one of names and selector",
    ),
    (
        "ReconcilerSpec",
        "!has(self.tenant)",
        "a Reconciler in a cluster belongs to the Tenant that claims its namespace: leave tenant out",
    ),
    (
        "ReconcilerSpec",
        "!has(self.clusters) || !(has(self.clusters.local) && !self.clusters.local && has(self.clusters.provider) && \
         !self.clusters.provider)",
        "local and provider are both false: this reconciler would watch nothing",
    ),
    (
        "GuestSpec",
        "!has(self.path)",
        "a path is for files only: give name, a guest of the platform, or image",
    ),
    (
        "GuestSpec",
        "has(self.path) || has(self.name) != has(self.image)",
        "give exactly one of name, a guest of the platform, and image",
    ),
    (
        "GuestSpec",
        "has(self.image) || !(has(self.digest) || has(self.interval) || has(self.pullSecret))",
        "digest, interval and pullSecret are for an image: leave them out",
    ),
    (
        "GuestSpec",
        "!has(self.image) || has(self.digest) || self.image.matches('/[^/]*[:@][^/]+$')",
        "an image has a tag or a digest: write one behind it, for example :1.0",
    ),
    (
        "PullSecretSpec",
        "!has(self.namespace)",
        "it is the namespace of the Reconciler: leave namespace out",
    ),
    (
        "ConfigSource",
        "has(self.secret) != has(self.configMap)",
        "give exactly one of secret and configMap",
    ),
];

/// Adds to the schema of a type what is about it.
pub(super) fn add(name: &str, schema: &mut Json) -> Result<(), SchemaError> {
    let rules = RULES.iter().filter(|(of, ..)| *of == name);
    for (_, rule, message) in rules {
        validate(schema, rule, message);
    }
    for (_, field, bound) in BOUNDS.iter().filter(|(of, ..)| *of == name) {
        match schema["properties"].get_mut(*field) {
            Some(field) => bound.add(field),
            None => return Err(SchemaError::NoSuchField(format!("{name}.{field}"))),
        }
    }
    if matches!(name, "ProviderStatus" | "TenantStatus" | "ReconcilerStatus") {
        let conditions = &mut schema["properties"]["conditions"];
        conditions["x-kubernetes-list-type"] = "map".into();
        conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    }
    Ok(())
}

/// The types that something is about.
#[cfg(test)]
pub(super) fn types() -> impl Iterator<Item = &'static str> {
    let bounds = BOUNDS.iter().map(|(name, ..)| *name);
    bounds.chain(RULES.iter().map(|(name, ..)| *name))
}

/// What refusals by rules say.
#[cfg(test)]
pub(super) fn messages() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(_, _, message)| *message)
}

fn validate(schema: &mut Json, rule: &str, message: &str) {
    if !schema[VALIDATIONS].is_array() {
        schema[VALIDATIONS] = json!([]);
    }
    if let Json::Array(all) = &mut schema[VALIDATIONS] {
        all.push(json!({"rule": rule, "message": message}));
    }
}

impl Bound {
    fn add(&self, field: &mut Json) {
        let ends = |least: &str, most: &str| match (least, most) {
            (least, "") => format!("expected {least} or more"),
            (least, most) => format!("expected {least} to {most}"),
        };
        match self {
            Number(least, most) => {
                field["minimum"] = (*least).into();
                field["maximum"] = (*most).into();
            }
            Numbers(least, most) => {
                field["additionalProperties"]["minimum"] = (*least).into();
                field["additionalProperties"]["maximum"] = (*most).into();
            }
            Duration(least, most) => {
                let mut rule = format!("duration(self) >= duration('{least}')");
                if !most.is_empty() {
                    rule.push_str(&format!(" && duration(self) <= duration('{most}')"));
                }
                validate(field, &rule, &ends(least, most));
            }
            Quantity(least, most) => {
                let compare = |sign: &str, end: &str| {
                    format!("quantity(string(self)).compareTo(quantity('{end}')) {sign} 0")
                };
                let mut rule = compare(">=", least);
                if !most.is_empty() {
                    rule.push_str(&format!(" && {}", compare("<=", most)));
                }
                validate(field, &rule, &ends(least, most));
            }
            Text => field["minLength"] = 1.into(),
            Form(pattern) => field["pattern"] = (*pattern).into(),
            List => field["minItems"] = 1.into(),
            AtMost(most) => field["maxItems"] = (*most).into(),
            Each(pattern) => field["items"]["pattern"] = (*pattern).into(),
            ListOf(pattern) => {
                field["minItems"] = 1.into();
                field["items"]["pattern"] = (*pattern).into();
            }
            Words(words) => {
                field["minItems"] = 1.into();
                field["items"] = json!({"type": "string", "enum": words});
            }
            Filled(value) => field["default"] = (*value).into(),
        }
    }
}

/// The fields of a schema, for tests of the whole.
#[cfg(test)]
pub(super) fn fields(schema: &Json) -> Option<&serde_json::Map<String, Json>> {
    schema["properties"].as_object()
}
