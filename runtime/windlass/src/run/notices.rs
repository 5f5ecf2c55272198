//! Records Events about refused documents and changes and their end, and about namespaces that several Tenants claim. Entry point:
//! [`Notices::update`].
//!
//! Every process records them, whether it leads or not: each reads its own files and loads its own guests, and may be the only one that
//! refuses.

use crate::app::App;
use crate::app::own_events::{self, OwnEvent};
use crate::config::kinds::{Identity, Kind};
use crate::config::objects::Holding;
use std::collections::{BTreeMap, BTreeSet};
use windlass_files::Problem;
use windlass_fleet::api::EventType;

/// Documents whose current version is not in effect.
type Refused = BTreeMap<Identity, Refusal>;

/// Why a version is not in effect, and what is in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    why: String,
    /// The last good version is.
    has_earlier: bool,
}

/// The refusals that were recorded.
#[derive(Default)]
pub(super) struct Notices {
    /// The refusals at the last update.
    recorded: Refused,
    /// Documents that cannot be read, with an earlier version in effect.
    kept: BTreeMap<Identity, Problem>,
    /// New objects of the local cluster that are refused, and why.
    refused_objects: BTreeMap<Identity, String>,
    /// The claims of Tenants on namespaces that another Tenant has or claims, and those that were recorded.
    claims: BTreeSet<Claim>,
    recorded_claims: BTreeSet<Claim>,
}

/// A Tenant, the reason of the Event, and what it says.
type Claim = (Identity, &'static str, String);

/// What has changed about a document.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// The current version is refused, or refused for a new reason.
    Refused(Refusal),
    /// The current version is in effect again.
    InEffect,
}

impl Notices {
    /// Sets the documents that cannot be read, with an earlier version in effect.
    pub(super) fn set_kept(&mut self, kept: BTreeMap<Identity, Problem>) {
        self.kept = kept;
    }

    /// Sets the objects of the local cluster that are refused. Those with an earlier version in effect are set above.
    pub(super) fn set_refused_objects(&mut self, refused: BTreeMap<Identity, String>) {
        self.refused_objects = refused;
    }

    /// Sets what the claims of Tenants come to.
    pub(super) fn set_holdings(&mut self, holdings: &BTreeMap<String, Holding>) {
        self.claims = holdings
            .iter()
            .flat_map(|(tenant, holding)| claims(tenant, holding))
            .collect();
    }

    /// Records what has changed since the last update. Never waits. The log and the status have the same messages.
    pub(super) fn update(&mut self, app: &App) {
        let refused = self.refused(app);
        let configuration = app.configuration.load();
        let news = news(&self.recorded, &refused, |of| {
            configuration.get(of).is_some()
        });
        self.recorded = refused;
        for (identity, news) in news {
            own_events::record(app, &identity, event(news));
        }
        for (tenant, reason, note) in self.claims.difference(&self.recorded_claims) {
            let event = OwnEvent {
                event_type: EventType::Warning,
                reason,
                action: "Claim",
                note: note.clone(),
                tenant: None,
            };
            own_events::record(app, tenant, event);
        }
        self.recorded_claims.clone_from(&self.claims);
    }

    fn refused(&self, app: &App) -> Refused {
        let refusal = |identity: &Identity, has_earlier, why| {
            (identity.clone(), Refusal { why, has_earlier })
        };
        let objects = self.refused_objects.iter();
        let objects = objects.map(|(identity, why)| refusal(identity, false, why.clone()));
        let documents = self.kept.iter();
        let documents =
            documents.map(|(identity, problem)| refusal(identity, true, problem.to_string()));
        let served = app.statuses.all().into_iter();
        let reconcilers = served.filter_map(|(name, entry)| {
            let kind = Kind::Reconciler;
            let has_earlier = entry.revision.is_some();
            Some(refusal(
                &Identity { kind, name },
                has_earlier,
                entry.problem?,
            ))
        });
        // Of a document that two say something about, the last one counts.
        objects.chain(reconcilers).chain(documents).collect()
    }
}

/// The Events about a namespace that both Tenants claim.
fn claims(tenant: &str, holding: &Holding) -> impl Iterator<Item = Claim> {
    let identity = Identity {
        kind: Kind::Tenant,
        name: tenant.to_owned(),
    };
    let refused = holding.refused.as_ref();
    let refused = refused.map(|of| (identity.clone(), "ClaimRefused", of.refused()));
    let kept = holding.kept.as_ref();
    let kept = kept.map(|of| (identity, "ClaimContested", of.kept()));
    refused.into_iter().chain(kept)
}

/// The difference between two updates, without documents that were removed.
fn news(
    recorded: &Refused,
    now: &Refused,
    exists: impl Fn(&Identity) -> bool,
) -> Vec<(Identity, News)> {
    let refused = now
        .iter()
        .filter(|(identity, reason)| recorded.get(*identity) != Some(reason))
        .map(|(identity, reason)| (identity.clone(), News::Refused(reason.clone())));
    let in_effect = recorded
        .keys()
        .filter(|identity| !now.contains_key(identity) && exists(identity))
        .map(|identity| (identity.clone(), News::InEffect));
    refused.chain(in_effect).collect()
}

fn event(news: News) -> OwnEvent {
    let (event_type, reason, note) = match news {
        News::Refused(Refusal {
            why,
            has_earlier: true,
        }) => (
            EventType::Warning,
            "ReloadRefused",
            format!("the change is not in effect, the last good version is: {why}"),
        ),
        News::Refused(Refusal { why, .. }) => (
            EventType::Warning,
            "Refused",
            format!("nothing of it is in effect: {why}"),
        ),
        News::InEffect => (
            EventType::Normal,
            "ReloadSucceeded",
            "the refused change is in effect or was reverted".to_owned(),
        ),
    };
    OwnEvent {
        event_type,
        reason,
        action: "Reload",
        note,
        tenant: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Identity {
        Identity {
            kind: Kind::Reconciler,
            name: name.to_owned(),
        }
    }

    fn refusal(why: &str) -> Refusal {
        Refusal {
            why: why.to_owned(),
            has_earlier: true,
        }
    }

    fn refused(all: &[(&str, &str)]) -> Refused {
        let one = |(name, why): &(&str, &str)| (identity(name), refusal(why));
        all.iter().map(one).collect()
    }

    #[test]
    fn each_refusal_is_recorded_once_and_so_is_its_end_unless_the_document_is_gone() {
        let recorded = refused(&[
            ("same", "x"),
            ("other", "x"),
            ("repaired", "x"),
            ("gone", "x"),
        ]);
        let now = refused(&[("same", "x"), ("other", "y"), ("new", "z")]);
        let why = |why: &str| News::Refused(refusal(why));
        assert_eq!(
            news(&recorded, &now, |of| of.name != "gone"),
            [
                (identity("new"), why("z")),
                (identity("other"), why("y")),
                (identity("repaired"), News::InEffect),
            ]
        );
        assert_eq!(news(&now, &now, |_| true), []);
    }
}
