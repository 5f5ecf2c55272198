//! Records Events about refused changes, and about their end. Entry point: [`Notices::update`].
//!
//! Every process records them, whether it leads or not: each reads its own files and loads its own guests, and may be the only one that
//! refuses.

use crate::app::App;
use crate::app::own_events::{self, OwnEvent};
use crate::config::document::Problem;
use crate::config::kinds::{Identity, Kind};
use std::collections::BTreeMap;
use windlass_fleet::api::EventType;

/// Documents whose last good version is in effect in place of the current one, and why.
type Refused = BTreeMap<Identity, String>;

/// The refusals that were recorded.
#[derive(Default)]
pub(super) struct Notices {
    /// The refusals at the last update.
    recorded: Refused,
    /// Documents that cannot be read, with an earlier version in effect.
    kept: BTreeMap<Identity, Problem>,
}

/// What has changed about a document.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// The current version is refused, or refused for a new reason.
    Refused(String),
    /// The current version is in effect again.
    InEffect,
}

impl Notices {
    /// Sets the documents that cannot be read, with an earlier version in effect.
    pub(super) fn set_kept(&mut self, kept: BTreeMap<Identity, Problem>) {
        self.kept = kept;
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
    }

    fn refused(&self, app: &App) -> Refused {
        let kept = self.kept.iter();
        let documents = kept.map(|(identity, problem)| (identity.clone(), problem.to_string()));
        let served = app.statuses.all().into_iter();
        let reconcilers = served.filter_map(|(name, entry)| {
            let kind = Kind::Reconciler;
            entry.revision?;
            Some((Identity { kind, name }, entry.problem?))
        });
        reconcilers.chain(documents).collect()
    }
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
        News::Refused(why) => (
            EventType::Warning,
            "ReloadRefused",
            format!("the change is not in effect, the last good version is: {why}"),
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

    fn refused(all: &[(&str, &str)]) -> Refused {
        let one = |(name, why): &(&str, &str)| (identity(name), (*why).to_owned());
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
        let why = |why: &str| News::Refused(why.to_owned());
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
