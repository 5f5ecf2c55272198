//! The leader election in the admin endpoints. Entry points: [`view`] and [`verdict`].

use crate::app::App;
use serde::Serialize;
use windlass_fleet::election::ElectionStatus;

/// The election of this process, if there is one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ElectionView {
    /// Whether there is an election. Without one the other fields are empty.
    enabled: bool,
    /// Whether this process reconciles.
    leads: bool,
    /// The Lease's namespace.
    namespace: String,
    /// The Lease's name.
    name: String,
    /// The candidate name of this process.
    identity: String,
    /// The holder of the Lease; empty if this process knows of none.
    holder: String,
    /// The number of changes of the holder.
    transitions: i32,
    /// Why the Lease cannot be read or renewed; empty if it can.
    problem: String,
}

/// For `/api/v1/election`. Without an election every process reconciles.
pub(super) fn view(app: &App) -> ElectionView {
    let status = app.manager.election();
    let enabled = status.is_some();
    let status = status.unwrap_or_default();
    ElectionView {
        enabled,
        leads: status.leads || !enabled,
        namespace: status.namespace,
        name: status.name,
        identity: status.candidate,
        holder: status.holder,
        transitions: status.transitions,
        problem: status.problem.unwrap_or_default(),
    }
}

/// Whether the election works, and its state for people. A process that waits for another leader works correctly.
pub(super) fn verdict(status: &ElectionStatus) -> (bool, String) {
    let detail = match (&status.problem, status.leads, status.holder.as_str()) {
        (Some(problem), _, _) => format!(
            "the lease {}/{} is not available: {problem}",
            status.namespace, status.name
        ),
        (None, true, _) => "this process leads".to_owned(),
        (None, false, "") => "nobody leads yet".to_owned(),
        (None, false, holder) => format!("{holder} leads, this process waits"),
    };
    (status.problem.is_none(), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_is_as_it_should_be_and_a_lease_that_cannot_be_had_is_not() {
        let mut status = ElectionStatus {
            namespace: "ns".to_owned(),
            name: "lease".to_owned(),
            ..ElectionStatus::default()
        };
        assert_eq!(verdict(&status), (true, "nobody leads yet".to_owned()));
        status.holder = "other".to_owned();
        assert_eq!(
            verdict(&status),
            (true, "other leads, this process waits".to_owned())
        );
        status.problem = Some("forbidden".to_owned());
        let (holds, detail) = verdict(&status);
        assert!(!holds && detail.contains("ns/lease") && detail.contains("forbidden"));
    }
}
