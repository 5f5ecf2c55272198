//! What the documents no longer grant is taken from a revision that serves, whatever becomes of its reload. Entry point:
//! [`Reconcilers::withdraw`].
//!
//! A change of rights is in two halves. What it takes away is in effect before anything is loaded, so that nothing that fails then
//! can keep it; what it gives waits for the reload.

use super::slot::{Recipe, Slot};
use super::{Reconcilers, terms};
use crate::config::kinds::ReconcilerSpec;
use crate::config::load::Configuration;
use crate::guests::{self, Bounds, Guests, Shape, Terms};
use std::sync::Arc;
use windlass_fleet::Grant;
use windlass_fleet::controller::Controller;
use windlass_fleet::source::ClusterSelection;
use windlass_sandbox::Rights;

/// What is left to the controller of a revision that was loaded under other documents. What is left to its guest, the guest knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Narrowing {
    /// Where its watches may engage, of where they did; none: there.
    within: Option<ClusterSelection>,
    /// Calls at once; none: as many as before.
    concurrency: Option<usize>,
    /// Calls at once in one cluster; none: as many as before.
    per_cluster: Option<usize>,
}

impl Reconcilers {
    /// Takes from whatever serves what the documents do not grant any more, and gives back what they grant again of what it was loaded
    /// with. In effect for guests when this returns; their controllers are to be replaced by those that are returned.
    pub(crate) fn withdraw(&mut self, configuration: &Configuration) -> Vec<Controller> {
        let mut controllers = Vec::new();
        for (document, spec) in configuration.reconcilers() {
            let name = &document.identity.name;
            let Some(slot) = self.slots.get_mut(name) else {
                continue;
            };
            if let Some(controller) = slot.narrow(&self.guests, name, spec, configuration) {
                tracing::info!(
                    reconciler = name,
                    "what serves goes on with what both its documents and those before allow"
                );
                controllers.push(controller);
            }
        }
        controllers
    }
}

impl Slot {
    fn narrow(
        &mut self,
        guests: &Guests,
        name: &str,
        spec: &ReconcilerSpec,
        configuration: &Configuration,
    ) -> Option<Controller> {
        let running = self.running.as_ref()?;
        let guest = guests.named(name)?;
        let (rights, narrowing) = Narrowing::of(running, spec, configuration);
        let changes = guest.keep_within(&rights);
        if !changes && narrowing == self.narrowing {
            return None;
        }
        self.has_less = guest.is_kept_within_less() || narrowing != Narrowing::default();
        self.narrowing = narrowing;
        let shape = self.narrowing.shape(running);
        let controller = shape.and_then(|shape| guests::controller_of(guest, name, shape));
        // What served was such a controller.
        let refused = |problem| tracing::error!(reconciler = name, problem, "it is not replaced");
        controller.map_err(refused).ok()
    }

    /// Why a change is not in effect, and with what the revision before serves then.
    pub(super) fn told(&self, problem: &str) -> String {
        match self.has_less && self.running.is_some() {
            true => format!(
                "{problem}\nuntil then the revision before serves, with no more than the documents grant now"
            ),
            false => problem.to_owned(),
        }
    }
}

impl Narrowing {
    /// What is left of what a revision was loaded with, as the documents are now: to its guest, and to its controller.
    fn of(
        running: &Recipe,
        spec: &ReconcilerSpec,
        configuration: &Configuration,
    ) -> (Rights, Self) {
        let asked = Bounds::of(spec, &terms(configuration, spec));
        let mut rights = asked.rights;
        // Until it has moved, the tenant that it leaves answers for it.
        if running.spec.tenant() != spec.tenant() {
            let former = former_terms(configuration, running.spec.tenant());
            rights = Bounds::of(spec, &former).rights.and(&rights);
        }
        let had = Bounds::of(&running.spec, &running.terms);
        let mut narrowing = Self {
            within: None,
            concurrency: fewer(had.concurrency, asked.concurrency),
            per_cluster: fewer(Some(had.per_cluster), Some(asked.per_cluster)),
        };
        if spec.clusters != running.spec.clusters {
            match guests::selection(spec) {
                Ok(now) => narrowing.within = Some(now),
                // A checked document excludes that. It is unknown where it may be, and so it may do nothing.
                Err(_) => rights.grant = Arc::new(Grant::none()),
            }
        }
        (rights, narrowing)
    }

    /// The controller of what serves, in what its guest does not tell.
    fn shape(&self, running: &Recipe) -> Result<Shape, String> {
        let had = Bounds::of(&running.spec, &running.terms);
        let before = guests::selection(&running.spec)?;
        Ok(Shape {
            selection: ClusterSelection {
                within: self.within.clone().map(Box::new),
                ..before
            },
            concurrency: self.concurrency.or(had.concurrency),
            per_cluster: self.per_cluster.unwrap_or(had.per_cluster),
            resync: running.spec.resync,
        })
    }
}

/// The second limit, if it is the smaller one. None is no limit.
fn fewer(had: Option<usize>, asked: Option<usize>) -> Option<usize> {
    asked.filter(|asked| had.is_none_or(|had| *asked < had))
}

/// What the document of a tenant says that a reconciler leaves. One without a document grants nothing: it is gone.
fn former_terms(configuration: &Configuration, tenant: &str) -> Terms {
    match configuration.tenant(tenant) {
        Some((_, spec)) => Terms::of(spec),
        None if tenant == "default" => Terms::default(),
        None => Terms {
            ceiling: Some(Vec::new()),
            ..Terms::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_calls_at_once_are_in_effect_and_more_are_not() {
        assert_eq!(fewer(Some(8), Some(2)), Some(2));
        assert_eq!(fewer(Some(2), Some(8)), None);
        assert_eq!(fewer(None, Some(1)), Some(1));
        assert_eq!(fewer(Some(8), None), None);
        assert_eq!(fewer(None, None), None);
    }
}
