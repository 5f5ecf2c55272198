//! The shards in the admin endpoints: which process works on which clusters. Entry points: [`view`], [`verdict`], [`check`] and [`drain`].

use super::Refused;
use crate::app::App;
use crate::output::count;
use crate::status::view::{DrainReply, MemberView, ShardsView};
use axum::http::StatusCode;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_fleet::ClusterName;
use windlass_fleet::shard::{ShardMember, ShardStatus};

/// Most clusters without an owner that an answer names.
const NAMED: usize = 20;

/// The query of `/api/v1/shards`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShardQuery {
    /// The cluster whose owner is asked for.
    cluster: Option<String>,
}

/// For `/api/v1/shards`.
///
/// # Errors
/// When a text is no name of a cluster.
pub(super) fn view(app: &App, query: &ShardQuery) -> Result<ShardsView, String> {
    let asked = query.cluster.as_ref().map(ClusterName::new).transpose();
    let asked = asked.map_err(|error| error.to_string())?;
    let Some(status) = app.manager.shards() else {
        return Ok(ShardsView::default());
    };
    let clusters = app.manager.fleet().clusters();
    let owners = clusters
        .iter()
        .map(|cluster| (cluster.name(), app.manager.owner_of(cluster.name())));
    let mut counts: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    let mut without_owner = Vec::new();
    for (cluster, owner) in owners {
        match owner {
            Some(owner) => *counts.entry(owner).or_default() += 1,
            None => without_owner.push(cluster.to_string()),
        }
    }
    let owner = asked.and_then(|cluster| app.manager.owner_of(&cluster));
    let clusters_without_owner = without_owner.len() as u64;
    without_owner.truncate(NAMED);
    Ok(ShardsView {
        enabled: true,
        items: members(&status.members, &counts),
        namespace: status.namespace,
        name: status.name,
        shards: status.shards.into(),
        shards_without_owner: status.ownerless.into(),
        clusters_without_owner,
        without_owner,
        member: status.member,
        moves: status.moves,
        problem: status.problem.unwrap_or_default(),
        owner: owner.map(|owner| owner.to_string()),
    })
}

/// The members by name. A process that has started again has a new life in the Leases, and what its former life held is its own.
fn members(members: &[ShardMember], clusters: &BTreeMap<Arc<str>, u64>) -> Vec<MemberView> {
    let mut by_name: BTreeMap<&str, MemberView> = BTreeMap::new();
    // Those that live come last, and say how the member is.
    let dead = members.iter().filter(|member| !member.alive);
    for member in dead.chain(members.iter().filter(|member| member.alive)) {
        let name = member.name.as_str();
        let view = by_name.entry(name).or_default();
        view.name = name.to_owned();
        view.state = state(member).to_owned();
        view.weight = member.weight.into();
        view.shards += u64::from(member.held);
        view.next += u64::from(member.next);
        view.clusters = clusters.get(name).copied().unwrap_or_default();
    }
    let views = by_name.into_values();
    // One that is dead and holds nothing more is history.
    let views = views.filter(|view| view.state != MemberView::DEAD || view.shards > 0);
    views.collect()
}

fn state(member: &ShardMember) -> &'static str {
    match (member.alive, member.draining) {
        (false, _) => MemberView::DEAD,
        (true, true) => MemberView::DRAINING,
        (true, false) => MemberView::WORKING,
    }
}

/// Whether the sharding works, and its state for people. That other members are dead makes none of the living ones unready.
pub(super) fn verdict(status: &ShardStatus) -> (bool, String) {
    if let Some(problem) = &status.problem {
        let (namespace, name) = (&status.namespace, &status.name);
        return (
            false,
            format!("the shards of {namespace}/{name}: {problem}"),
        );
    }
    let alive = status.members.iter().filter(|member| member.alive).count();
    let mut detail = format!(
        "{} of {} shards are held here, {}",
        status.held,
        status.shards,
        count(alive as u64, "living member")
    );
    if status.ownerless > 0 {
        detail.push_str(&format!(
            ", {} without an owner",
            count(status.ownerless.into(), "shard")
        ));
    }
    (true, detail)
}

/// Checks that this process works on a cluster, or that nobody does in particular.
///
/// # Errors
/// 409 with the name of the member that does.
pub(super) fn check(app: &App, cluster: &ClusterName) -> Result<(), Refused> {
    let Some(status) = app.manager.shards() else {
        return Ok(());
    };
    if app.manager.works_on(cluster) {
        return Ok(());
    }
    let name = cluster.as_str();
    let message = match app.manager.owner_of(cluster) {
        Some(owner) if *owner != *status.member => {
            format!("the process {owner} works on the cluster {name:?}: ask that one")
        }
        Some(_) => format!("the cluster {name:?} passes to another process: try again"),
        None => {
            format!("no process works on the cluster {name:?} now: see windlass get shards")
        }
    };
    Err(Refused(StatusCode::CONFLICT, message))
}

/// Begins to give this process's shards to the others.
///
/// # Errors
/// When there are no shards.
pub(super) fn drain(app: &App) -> Result<DrainReply, Refused> {
    let Some(status) = app.manager.shards().filter(|_| app.manager.drain_shards()) else {
        let message =
            "this process has no shards to give away: spec.sharding of its Manager is not enabled";
        return Err(Refused(StatusCode::CONFLICT, message.to_owned()));
    };
    let takes =
        |member: &&ShardMember| member.alive && !member.draining && member.name != status.member;
    let others = status.members.iter().filter(takes).count() as u64;
    Ok(DrainReply {
        member: status.member.clone(),
        shards: status.held.into(),
        others,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, alive: bool, held: u32) -> ShardMember {
        ShardMember {
            name: name.to_owned(),
            incarnation: format!("{name}-{alive}"),
            weight: 10,
            alive,
            draining: false,
            held,
            next: 0,
        }
    }

    #[test]
    fn the_lives_of_a_member_are_one_row_and_dead_ones_that_hold_nothing_are_none() {
        let all = [
            member("b", false, 3),
            member("a", true, 5),
            member("a", false, 2),
            member("c", false, 0),
        ];
        let views = members(&all, &[("a".into(), 4)].into());
        let rows = views.iter().map(|view| {
            let name = view.name.as_str();
            (name, view.state.as_str(), view.shards, view.clusters)
        });
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows, [("a", "Working", 7, 4), ("b", "Dead", 3, 0)]);
    }

    #[test]
    fn a_member_is_unready_for_a_problem_and_not_for_shards_of_others() {
        let mut status = ShardStatus {
            shards: 256,
            held: 86,
            ownerless: 1,
            members: vec![member("a", true, 86), member("b", false, 1)],
            ..ShardStatus::default()
        };
        let detail = "86 of 256 shards are held here, 1 living member, 1 shard without an owner";
        assert_eq!(verdict(&status), (true, detail.to_owned()));
        status.problem = Some("forbidden".to_owned());
        let (holds, detail) = verdict(&status);
        assert!(!holds && detail.contains("forbidden"));
    }
}
