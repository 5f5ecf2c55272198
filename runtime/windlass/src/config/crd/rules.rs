//! What the kinds' `check` refuses, as schemas say it: forms of texts, lists that are not empty, and rules in CEL. Entry point: [`add`].
//!
//! Each stands by the type and the field that it is about. An API server refuses with these what a process would refuse when it reads the
//! object. `refused.json` has an object for each of them. Those of a Manager are for Helm, which knows no CEL: forms of texts and lists.
//! Bounds of numbers, amounts, times and lists are part of the fields' types: see `kinds/bounded.rs`.

use super::SchemaError;
use crate::config::kinds::bounded::VALIDATIONS;
use serde_json::{Value as Json, json};

/// A DNS label: a name of a namespace, or a class.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";

/// A name of an image, and what a Tenant allows of them: the host is always written.
const IMAGE: &str = "^(oci://)?(localhost|[a-z0-9-]+[.:][a-z0-9.:-]+)/[a-z0-9._/-]+(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$";
const IMAGES: &str = "^(localhost|[*]|[*a-z0-9-]+[.:][*a-z0-9.:-]+)(/[*A-Za-z0-9._-]+)*/?$";

/// An identity or an issuer in a certificate.
const NAME_IN_CERTIFICATE: &str = "^[!-~]+$";

/// An IP address, in brackets if it has colons, and a port.
const ADDRESS: &str = "^([0-9.]+|\\[[0-9a-fA-F:.]+\\]):[0-9]{1,5}$";

/// What holds for the value of a field.
enum Bound {
    /// A text that is not empty.
    Text,
    /// A text of this form, and what to write.
    Form(&'static str),
    /// A list that is not empty.
    List,
    /// A list of texts of this form.
    Each(&'static str),
    /// A list that is not empty, of texts of this form.
    ListOf(&'static str),
    /// A list that is not empty, of these words.
    Words(&'static [&'static str]),
    /// What the field is without a value.
    Filled(&'static str),
}

use Bound::{Each, Filled, Form, List, ListOf, Text, Words};

const BOUNDS: &[(&str, &str, Bound)] = &[
    ("ProviderSpec", "class", Form(LABEL)),
    ("TenantSpec", "class", Form(LABEL)),
    ("ReconcilerSpec", "class", Form(LABEL)),
    ("ProviderSpec", "prefix", Form("^[ -\"$-~]+$")),
    ("HubSecretSpec", "namespace", Form(LABEL)),
    ("HubSecretSpec", "name", Text),
    ("HubSecretSpec", "key", Text),
    ("HubSecretSpec", "key", Filled("kubeconfig")),
    ("HubSecretSpec", "context", Text),
    ("ReadySpec", "condition", Text),
    ("KubeconfigSecretsSpec", "namespaces", ListOf(LABEL)),
    ("KubeconfigSecretsSpec", "key", Text),
    ("KubeconfigSecretsSpec", "key", Filled("kubeconfig")),
    ("KubeconfigSecretsSpec", "context", Text),
    ("ClusterApiSpec", "namespaces", ListOf(LABEL)),
    ("ClusterProfilesSpec", "namespaces", ListOf(LABEL)),
    ("ClusterProfilesSpec", "accessProviders", List),
    ("ApiExportSpec", "endpointSlice", Text),
    ("ApiExportSpec", "name", Text),
    ("ApiExportSpec", "path", Text),
    ("WorkspaceTypeSpec", "workspaceType", Text),
    ("Impersonate", "user", Text),
    ("NamespaceClaim", "names", ListOf(LABEL)),
    ("NamespaceClaim", "selector", Text),
    ("TenantClusters", "names", List),
    ("TenantClusters", "providers", List),
    ("GuestSpec", "name", Text),
    ("GuestSpec", "image", Form(IMAGE)),
    ("GuestSpec", "digest", Form("^sha256:[0-9a-f]{64}$")),
    ("PullSecretSpec", "name", Text),
    ("GuestsSpec", "registries", Each(IMAGES)),
    ("KeylessSpec", "identity", Form(NAME_IN_CERTIFICATE)),
    ("KeylessSpec", "issuer", Form(NAME_IN_CERTIFICATE)),
    ("ConfigSource", "secret", Form("^[^/]+$")),
    ("ConfigSource", "configMap", Form("^[^/]+$")),
    ("ConfigSource", "key", Form("^[^/]+$")),
    ("HttpRuleSpec", "hosts", Each("^([*][.])?[A-Za-z0-9._:-]+$")),
    ("HttpRuleSpec", "methods", Each("^[A-Z]+$")),
    ("HttpRuleSpec", "paths", Each("^/[^?#\\s]*$")),
    (
        "HttpRuleSpec",
        "addresses",
        Each("^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$"),
    ),
    ("HttpHeaderSpec", "name", Form("^[A-Za-z0-9-]+$")),
    ("HttpHeaderSpec", "secret", Form("^[^/]+$")),
    ("HttpHeaderSpec", "key", Form("^[^/]+$")),
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
    ("ManagerSpec", "class", Form(LABEL)),
    ("AdminSpec", "address", Form(ADDRESS)),
    ("AdminSpec", "probeAddress", Form(ADDRESS)),
    ("AdminSpec", "metricsAddress", Form(ADDRESS)),
    ("AdminSpec", "audiences", Each("^.")),
    ("AdminSpec", "allowHosts", Each("^[A-Za-z0-9._-]{1,253}$")),
    ("LeaderElectionSpec", "namespace", Text),
    ("LeaderElectionSpec", "name", Text),
    ("ShardingSpec", "namespace", Text),
    ("ShardingSpec", "name", Form(LABEL)),
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
        "SignaturesSpec",
        "(has(self.keys) && self.keys.size() > 0) || (has(self.keyless) && self.keyless.size() > 0)",
        "it names no signer: give keys, or signers in keyless",
    ),
    (
        "ConfigSource",
        "has(self.secret) != has(self.configMap)",
        "give exactly one of secret and configMap",
    ),
    (
        "HttpHeaderSpec",
        "has(self.value) ? !has(self.secret) && !has(self.key) && !has(self.prefix) : has(self.secret) && has(self.key)",
        "give exactly one of value, and secret with key",
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
        match self {
            Text => field["minLength"] = 1.into(),
            Form(pattern) => field["pattern"] = (*pattern).into(),
            List => field["minItems"] = 1.into(),
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
