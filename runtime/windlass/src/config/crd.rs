//! The kinds as CustomResourceDefinitions, and the Manager as the chart's values have it. Entry points: [`definitions`] and
//! [`manager_schema`].
//!
//! The schemas are made from the very types that read documents, with their comments as descriptions and their bounds. What the types do
//! not say, such as fields that exclude each other, stands in `rules`, by type and field.

mod rules;
mod schema;
#[cfg(test)]
mod tests;

use crate::config::kinds::status::{ProviderStatus, ReconcilerStatus, TenantStatus};
use crate::config::kinds::{
    API_VERSION, Kind, ManagerSpec, ProviderSpec, ReconcilerSpec, TenantSpec,
};
pub(crate) use schema::SchemaError;
use schema::{closed, structural};
use schemars::JsonSchema;
use serde_json::{Value as Json, json};

/// A column of `kubectl get`.
struct Column {
    name: &'static str,
    of: &'static str,
    path: &'static str,
    /// Shown by `-o wide` alone.
    is_wide: bool,
}

const fn column(name: &'static str, of: &'static str, path: &'static str) -> Column {
    let is_wide = false;
    Column {
        name,
        of,
        path,
        is_wide,
    }
}

impl Column {
    fn json(&self) -> Json {
        let mut json = json!({"name": self.name, "type": self.of, "jsonPath": self.path});
        if self.is_wide {
            json["priority"] = json!(1);
        }
        json
    }
}

/// A kind as an object of a cluster.
struct Definition {
    kind: Kind,
    plural: &'static str,
    short: &'static str,
    scope: &'static str,
    /// Longest name, in bytes.
    longest: usize,
    needs_spec: bool,
    columns: &'static [Column],
}

const READY: Column = column(
    "Ready",
    "string",
    ".status.conditions[?(@.type==\"Ready\")].status",
);
const REASON: Column = column(
    "Reason",
    "string",
    ".status.conditions[?(@.type==\"Ready\")].reason",
);
/// A condition stays when no process runs, and this does not.
const SEEN: Column = column("Seen", "date", ".status.lastHeartbeatTime");
const AGE: Column = column("Age", "date", ".metadata.creationTimestamp");
const REVISION: Column = Column {
    is_wide: true,
    ..column("Revision", "string", ".status.revision")
};

const PROVIDER: Definition = Definition {
    kind: Kind::Provider,
    plural: "providers",
    short: "wlp",
    scope: "Cluster",
    longest: 63,
    needs_spec: true,
    columns: &[
        READY,
        REASON,
        column("Found", "integer", ".status.found"),
        column("Engaged", "integer", ".status.engaged"),
        column("Refused", "integer", ".status.refused"),
        SEEN,
        AGE,
    ],
};
const TENANT: Definition = Definition {
    kind: Kind::Tenant,
    plural: "tenants",
    short: "wlt",
    scope: "Cluster",
    longest: 50,
    needs_spec: false,
    columns: &[
        READY,
        REASON,
        column("Namespaces", "integer", ".status.namespaces"),
        column("Reconcilers", "integer", ".status.reconcilers"),
        SEEN,
        AGE,
    ],
};
const RECONCILER: Definition = Definition {
    kind: Kind::Reconciler,
    plural: "reconcilers",
    short: "wlr",
    scope: "Namespaced",
    longest: 253,
    needs_spec: true,
    columns: &[
        column("Tenant", "string", ".status.tenant"),
        READY,
        REASON,
        column("Clusters", "integer", ".status.clusters"),
        column("Failing", "integer", ".status.keys.backoff"),
        REVISION,
        SEEN,
        AGE,
    ],
};

/// The definitions of the kinds that a cluster may have.
///
/// # Errors
/// When a type has a form that no structural schema has, or a rule names a type or a field that is not there. A test excludes both.
pub(crate) fn definitions() -> Result<Vec<Json>, SchemaError> {
    Ok(vec![
        PROVIDER.of::<ProviderSpec, ProviderStatus>()?,
        TENANT.of::<TenantSpec, TenantStatus>()?,
        RECONCILER.of::<ReconcilerSpec, ReconcilerStatus>()?,
    ])
}

/// The JSON Schema of a Manager's spec, for values of the chart. It refuses unknown fields, wrong types, and what is out of bounds. Whether a
/// duration or an amount is, no JSON Schema can say: the process refuses that at its start.
///
/// # Errors
/// As [`definitions`].
pub(crate) fn manager_schema() -> Result<Json, SchemaError> {
    let mut schema = closed::<ManagerSpec>()?;
    // Of a Provider in a cluster it is the Manager's, so that the type has no need of it.
    let access_provider = &mut schema["properties"]["accessProviders"]["items"];
    access_provider["required"] = json!(["name", "execConfig"]);
    Ok(schema)
}

impl Definition {
    fn of<Spec: JsonSchema, Status: JsonSchema>(&self) -> Result<Json, SchemaError> {
        let (group, version) = API_VERSION.split_once('/').unwrap_or(("", API_VERSION));
        let columns: Vec<Json> = self.columns.iter().map(Column::json).collect();
        Ok(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{group}", self.plural)},
            "spec": {
                "group": group,
                "scope": self.scope,
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": self.plural.trim_end_matches('s'),
                    "shortNames": [self.short],
                    "categories": ["windlass"],
                },
                "versions": [{
                    "name": version,
                    "served": true,
                    "storage": true,
                    "additionalPrinterColumns": columns,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": self.root(structural::<Spec>()?, structural::<Status>()?)},
                }],
            },
        }))
    }

    fn root(&self, spec: Json, status: Json) -> Json {
        let required: &[&str] = if self.needs_spec { &["spec"] } else { &[] };
        let longest = self.longest;
        json!({
            "type": "object",
            "description": spec["description"],
            "required": required,
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": spec,
                "status": status,
            },
            "x-kubernetes-validations": [{
                "rule": format!("self.metadata.name.size() <= {longest}"),
                "message": format!("the name may have at most {longest} bytes"),
            }],
        })
    }
}
