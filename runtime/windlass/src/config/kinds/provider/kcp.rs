//! Workspaces of kcp as clusters. Entry point: [`KcpSpec`].

use super::hub::{self, HubSpec};
use crate::config::kinds::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_fleet::provider::kcp::{WorkspaceNames, Workspaces};

/// Workspaces of kcp as clusters: those of exactly one of the three.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct KcpSpec {
    /// The workspace that has the endpoint slice or the type: a kubeconfig whose server ends in `/clusters/<workspace>`.
    /// Default: the local cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<HubSpec>,
    /// Workspaces with an APIBinding to an export.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_export: Option<ApiExportSpec>,
    /// Workspaces that are being initialized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) initializing_workspaces: Option<WorkspaceTypeSpec>,
    /// Workspaces that are being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) terminating_workspaces: Option<WorkspaceTypeSpec>,
    /// What the clusters are named by: `logicalCluster` or `path`. They are found by both. Default: logicalCluster.
    pub(crate) names: NamesSpec,
}

/// An export: by the name of one of its endpoint slices, or by its own name and path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct ApiExportSpec {
    /// An APIExportEndpointSlice. kcp makes one with the name of the export.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint_slice: Option<String>,
    /// The export: every slice for it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The path of the export's workspace, beside `name`. Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
}

/// A WorkspaceType.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WorkspaceTypeSpec {
    /// Its name.
    pub(crate) workspace_type: String,
}

/// What clusters of workspaces are named by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum NamesSpec {
    /// The name of the logical cluster.
    #[default]
    LogicalCluster,
    /// The path.
    Path,
}

impl NamesSpec {
    /// The same in the engine's words.
    pub(crate) fn engine(self) -> WorkspaceNames {
        match self {
            Self::LogicalCluster => WorkspaceNames::LogicalCluster,
            Self::Path => WorkspaceNames::Path,
        }
    }
}

impl KcpSpec {
    /// Whose workspaces.
    ///
    /// # Errors
    /// A [`Refusal`] unless exactly one is given, with a name.
    pub(crate) fn workspaces(&self) -> Result<Workspaces, Refusal> {
        let of_type = |spec: &WorkspaceTypeSpec| spec.workspace_type.clone();
        let given = [
            self.api_export.as_ref().map(ApiExportSpec::workspaces),
            self.initializing_workspaces
                .as_ref()
                .map(|spec| Ok(Workspaces::Initializing(of_type(spec)))),
            self.terminating_workspaces
                .as_ref()
                .map(|spec| Ok(Workspaces::Terminating(of_type(spec)))),
        ];
        let mut given = given.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(one), None) => one,
            _ => Err(Refusal::new(
                "spec.kcp",
                "give exactly one of apiExport, initializingWorkspaces, terminatingWorkspaces",
            )),
        }
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        hub::check("spec.kcp", self.from.as_ref(), None, None)?;
        for spec in [&self.initializing_workspaces, &self.terminating_workspaces] {
            if spec
                .as_ref()
                .is_some_and(|spec| spec.workspace_type.is_empty())
            {
                let message = "workspaceType is empty: name a WorkspaceType";
                return Err(Refusal::new("spec.kcp", message));
            }
        }
        self.workspaces().map(drop)
    }
}

impl ApiExportSpec {
    fn workspaces(&self) -> Result<Workspaces, Refusal> {
        let path = "spec.kcp.apiExport";
        let fields = [
            ("endpointSlice", &self.endpoint_slice),
            ("name", &self.name),
            ("path", &self.path),
        ];
        for (field, text) in fields {
            hub::check_text(path, field, text.as_deref())?;
        }
        match (&self.endpoint_slice, &self.name, &self.path) {
            (Some(slice), None, None) => Ok(Workspaces::EndpointSlice(slice.clone())),
            (None, Some(name), path) => Ok(Workspaces::Export {
                name: name.clone(),
                path: path.clone(),
            }),
            _ => Err(Refusal::new(
                path,
                "give endpointSlice, or name and path of the export",
            )),
        }
    }
}
