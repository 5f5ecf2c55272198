//! Events about changes that are refused, and about those that are in effect after that. Entry point: [`Notices::tell`].
//!
//! They are recorded by every process, whether it leads or not: each reads its own files, loads by itself, and may be the only one
//! that refuses.

use super::own_events::{self, Said};
use crate::app::App;
use crate::config::document::Problem;
use crate::config::kinds::{Identity, Kind};
use std::collections::BTreeMap;
use windlass_fleet::api::EventType;

/// Documents that are not in effect as they are now while something before them is, and why.
type Refused = BTreeMap<Identity, String>;

/// What was told.
#[derive(Default)]
pub(super) struct Notices {
    /// What is refused, as it was told last.
    told: Refused,
    /// Documents of which an earlier version is in effect.
    kept: BTreeMap<Identity, Problem>,
}

/// What became of a document.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// It is not in effect, or for another reason than before.
    Refused(String),
    /// It is in effect after it was not.
    InEffect,
}

impl Notices {
    /// Stores the documents of which an earlier version is in effect now.
    pub(super) fn keep(&mut self, kept: BTreeMap<Identity, Problem>) {
        self.kept = kept;
    }

    /// Records what has become refused, or in effect again, since the last time. Never waits: what the local cluster does not take
    /// is in the log and the status all the same.
    pub(super) fn tell(&mut self, app: &App) {
        let refused = self.refused(app);
        let configuration = app.configuration.load();
        let news = news(&self.told, &refused, |of| configuration.get(of).is_some());
        self.told = refused;
        for (identity, news) in news {
            own_events::record(app, &identity, said(news));
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

/// What differs. A document that is gone is no news.
fn news(
    told: &Refused,
    now: &Refused,
    exists: impl Fn(&Identity) -> bool,
) -> Vec<(Identity, News)> {
    let refused = now
        .iter()
        .filter(|(identity, reason)| told.get(*identity) != Some(reason))
        .map(|(identity, reason)| (identity.clone(), News::Refused(reason.clone())));
    let in_effect = told
        .keys()
        .filter(|identity| !now.contains_key(identity) && exists(identity))
        .map(|identity| (identity.clone(), News::InEffect));
    refused.chain(in_effect).collect()
}

fn said(news: News) -> Said {
    let (event_type, reason, note) = match news {
        News::Refused(why) => (
            EventType::Warning,
            "ReloadRefused",
            format!("the change is not in effect, what ran before goes on: {why}"),
        ),
        News::InEffect => (
            EventType::Normal,
            "ReloadSucceeded",
            "what was refused is in effect, or taken back".to_owned(),
        ),
    };
    Said {
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
    fn each_refusal_is_told_once_and_so_is_its_end_unless_the_document_is_gone() {
        let told = refused(&[
            ("same", "x"),
            ("other", "x"),
            ("corrected", "x"),
            ("gone", "x"),
        ]);
        let now = refused(&[("same", "x"), ("other", "y"), ("new", "z")]);
        let why = |why: &str| News::Refused(why.to_owned());
        assert_eq!(
            news(&told, &now, |of| of.name != "gone"),
            [
                (identity("new"), why("z")),
                (identity("other"), why("y")),
                (identity("corrected"), News::InEffect),
            ]
        );
        assert_eq!(news(&now, &now, |_| true), []);
    }
}
