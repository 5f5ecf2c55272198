//! Puts the pauses of documents into effect, and reports what has changed: in the log, and as Events of the process that works on the local
//! cluster. Entry point: [`PauseNotices::apply`].

use crate::app::App;
use crate::app::own_events::{self, OwnEvent};
use crate::config::kinds::{Identity, Kind};
use crate::config::load::{Configuration, Spec};
use std::collections::BTreeMap;
use windlass_fleet::api::EventType;
use windlass_fleet::manager::PauseSet;
use windlass_fleet::paused::{End, Pause};
use windlass_fleet::{ClusterName, ControllerName, TenantName};

/// The pauses that were reported last.
#[derive(Default)]
pub(super) struct PauseNotices {
    /// None: nothing has been read. What was paused before the process started was reported by another one.
    known: Option<BTreeMap<Subject, Pause>>,
}

/// The document that asks for a pause, and the cluster of a Provider that it is of.
type Subject = (Identity, Option<ClusterName>);

impl PauseNotices {
    /// Puts the pauses of the documents in effect into effect. `all_read`: the objects of the local cluster are among these, if they count.
    pub(super) fn apply(&mut self, app: &App, all_read: bool) {
        let set = pause_set(&app.configuration.load());
        let now = subjects(app, &set);
        app.manager.set_pauses(set);
        if !all_read {
            return;
        }
        let first = self.known.is_none();
        let before = self.known.replace(now.clone()).unwrap_or_default();
        let begun = now
            .iter()
            .filter(|(of, pause)| before.get(of) != Some(pause));
        for (of, pause) in begun {
            report(app, of, Some(pause), first);
        }
        for of in before.keys().filter(|of| !now.contains_key(of)) {
            report(app, of, None, first);
        }
    }
}

/// The pauses of all documents, for the manager.
fn pause_set(configuration: &Configuration) -> PauseSet {
    let mut set = PauseSet::default();
    for document in configuration.documents() {
        let name = &document.identity.name;
        let own = document.pauses.own.clone();
        match (document.identity.kind, &document.spec, own) {
            (Kind::Tenant, _, Some(pause)) => {
                let tenant = TenantName::new(name).ok();
                set.tenants.extend(tenant.map(|tenant| (tenant, pause)));
            }
            (Kind::Reconciler, Spec::Reconciler(spec), Some(pause)) => {
                let tenant = TenantName::new(spec.tenant()).ok();
                let whole = tenant.zip(ControllerName::new(name).ok());
                set.reconcilers.extend(whole.map(|whole| (whole, pause)));
            }
            (Kind::Provider, _, own) => {
                set.providers.extend(own.map(|pause| (name.clone(), pause)));
                set.clusters.extend(document.pauses.clusters.clone());
            }
            _ => {}
        }
    }
    set
}

fn subjects(app: &App, set: &PauseSet) -> BTreeMap<Subject, Pause> {
    let of = |kind, name: &str, cluster| {
        let name = name.to_owned();
        (Identity { kind, name }, cluster)
    };
    let tenants = set.tenants.iter();
    let tenants = tenants.map(|(name, pause)| (of(Kind::Tenant, name.as_str(), None), pause));
    let reconcilers = set.reconcilers.iter();
    let reconcilers = reconcilers.map(|((_, name), pause)| {
        let of = of(Kind::Reconciler, name.as_str(), None);
        (of, pause)
    });
    let providers = set.providers.iter();
    let providers = providers.map(|(name, pause)| (of(Kind::Provider, name, None), pause));
    let configuration = app.configuration.load();
    let clusters = configuration.providers().flat_map(|(document, _)| {
        let named = document.pauses.clusters.iter();
        named.map(|(cluster, pause)| ((document.identity.clone(), Some(cluster.clone())), pause))
    });
    let all = tenants.chain(reconcilers).chain(providers).chain(clusters);
    all.map(|(of, pause)| (of, pause.clone())).collect()
}

/// `first`: at the start, which is in the log alone.
fn report(app: &App, of: &Subject, pause: Option<&Pause>, first: bool) {
    let (document, cluster) = of;
    let subject = match cluster {
        Some(cluster) => format!("cluster {}", cluster.as_str()),
        None => document.to_string(),
    };
    let state = pause.map_or_else(|| "resumed".to_owned(), Pause::to_string);
    let is_unreadable = pause.is_some_and(|pause| matches!(pause.end, End::Unreadable(_)));
    if is_unreadable {
        tracing::warn!(subject, state, "a pause changed, and its end is no time");
    } else {
        tracing::info!(subject, state, "a pause changed");
    }
    if first || !app.manager.works_on(&ClusterName::local()) {
        return;
    }
    let event = OwnEvent {
        event_type: if is_unreadable {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: if pause.is_some() { "Paused" } else { "Resumed" },
        action: "Pause",
        note: format!("{subject} is {state}"),
        tenant: None,
    };
    own_events::record(app, document, event);
}
