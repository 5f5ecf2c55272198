//! Sources of clusters that files hold. Entry points: [`KubeconfigFilesSpec`] and [`SingleSpec`].

use crate::config::kinds::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use windlass_fleet::name::NamePattern;
use windlass_fleet::provider::kubeconfig_files::LabelsByName;
use windlass_fleet::provider::name_template::NameTemplate;

/// Kubeconfig files and folders of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct KubeconfigFilesSpec {
    /// Files, and folders in which `globs` choose; relative to the document's folder. Default: $KUBECONFIG, else ~/.kube/config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paths: Option<Vec<PathBuf>>,
    /// File names that count in folders. Default: kubeconfig.yaml, kubeconfig.yml, *.kubeconfig, *.kubeconfig.yaml,
    /// *.kubeconfig.yml.
    #[serde(default)]
    pub(crate) globs: Vec<String>,
    /// Names of the clusters, of `{path}`, `{file}` (without its ending), `{context}` and `{cluster}`. Default: `{context}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Labels of the clusters, by the names of their files and contexts. Of equal labels the last counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) labels: Vec<LabelsByNameSpec>,
}

/// Labels of the clusters of some files and contexts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct LabelsByNameSpec {
    /// Names of files, without their folders; `*` matches any characters. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<String>,
    /// Names of contexts; `*` matches any characters. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contexts: Option<String>,
    /// The labels.
    pub(crate) labels: BTreeMap<String, String>,
}

/// One context of one kubeconfig file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SingleSpec {
    /// The file, relative to the document's folder.
    pub(crate) kubeconfig: PathBuf,
    /// The context. Default: the file's current context.
    #[serde(default)]
    pub(crate) context: Option<String>,
}

impl KubeconfigFilesSpec {
    /// How clusters are named.
    ///
    /// # Errors
    /// A [`Refusal`] when the template cannot be read, which a checked document excludes.
    pub(crate) fn name(&self) -> Result<NameTemplate, Refusal> {
        let Some(name) = &self.name else {
            return Ok(NameTemplate::default());
        };
        NameTemplate::parse(name)
            .map_err(|error| Refusal::new("spec.kubeconfigFiles.name", error.to_string()))
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.paths.as_ref().is_some_and(Vec::is_empty) {
            return Err(Refusal::new(
                "spec.kubeconfigFiles.paths",
                "the list is empty: name at least one file or folder, or leave it out for the files of kubectl",
            ));
        }
        for (at, labels) in self.labels.iter().enumerate() {
            if labels.labels.is_empty() {
                return Err(Refusal::new(
                    format!("spec.kubeconfigFiles.labels[{at}].labels"),
                    "there is no label: write at least one, as {env: prod}",
                ));
            }
        }
        self.name().map(drop)
    }

    /// The labels of its clusters.
    pub(crate) fn labels(&self) -> Vec<LabelsByName> {
        let pattern = |name: &Option<String>| NamePattern::new(name.as_deref().unwrap_or("*"));
        let labels = self.labels.iter().map(|spec| LabelsByName {
            files: pattern(&spec.files),
            contexts: pattern(&spec.contexts),
            labels: spec.labels.clone(),
        });
        labels.collect()
    }
}
