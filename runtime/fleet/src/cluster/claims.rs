//! What the owner of a workspace lets its export use. Entry point: [`Cluster::check_claims`].

use super::Cluster;
use crate::api::{ApiCode, ApiError};
use crate::kind::Resource;
use std::collections::BTreeSet;

/// Kinds that an APIExport of kcp claims, as group and plural, and that the owner of a workspace does not let it use there.
pub type RefusedClaims = BTreeSet<(String, String)>;

impl Cluster {
    /// Checks that the owner of the workspace accepts the export's claim on a resource. kcp refuses every call with the same words, and its
    /// caches lack the objects without a word.
    ///
    /// # Errors
    /// `denied`.
    pub(super) fn check_claims(&self, resource: &Resource) -> Result<(), ApiError> {
        let refused = self.refused_claims();
        let (group, plural) = (&resource.kind.group, &resource.plural);
        let is_it = |claim: &(String, String)| (&*claim.0, &*claim.1) == (&**group, &**plural);
        if refused.is_empty() || !refused.iter().any(is_it) {
            return Ok(());
        }
        let dot = if group.is_empty() { "" } else { "." };
        let message = format!(
            "the APIBinding of workspace {} does not accept the export's permission claim on {plural}{dot}{group}: the owner of the workspace must accept it",
            self.name
        );
        Err(ApiError::host(ApiCode::Denied, message))
    }
}
