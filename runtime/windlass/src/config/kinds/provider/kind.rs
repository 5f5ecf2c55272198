//! Clusters of the program `kind`. Entry point: [`KindSpec`].

use crate::config::kinds::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The clusters that `kind get clusters` lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct KindSpec {
    /// Only clusters whose names begin with this, which they keep. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name_prefix: Option<String>,
    /// The program, by its path, or by its name on the PATH. Default: kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<PathBuf>,
}

impl KindSpec {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        match &self.program {
            Some(program) if program.as_os_str().is_empty() => Err(Refusal::new(
                "spec.kind.program",
                "it is empty: leave it out for kind on the PATH",
            )),
            _ => Ok(()),
        }
    }
}
