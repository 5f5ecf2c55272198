//! What a reconciler shows of itself. Entry point: [`Reconciler::show`].

use super::{Reconciler, Serving};
use crate::config::kinds::GuestSource;
use crate::reconcilers::environment::Environment;
use crate::status::reconcilers::ReconcilerStatus;
use crate::status::view::RollbackReply;
use windlass_registry::Lookup;

impl Reconciler {
    /// What serves, for the caller of a rollback. `note`: why that may not last; empty: it does.
    pub(in crate::reconcilers) fn reply(&self, note: String) -> RollbackReply {
        let serving = self.serving.as_ref();
        let serving = serving.map(|serving| serving.inputs.component);
        let previous = self.history.previous().map(|previous| previous.digest);
        let [revision, previous] = [serving, previous]
            .map(|digest| digest.map_or_else(String::new, |digest| digest.to_string()));
        RollbackReply {
            reconciler: self.desired.name().to_owned(),
            revision,
            previous,
            rolled_back: self.history.is_rolled_back(),
            note,
        }
    }

    /// Shows its status.
    pub(in crate::reconcilers) fn show(&self, environment: &Environment) {
        environment.statuses.set(self.desired.name(), self.status());
    }

    fn status(&self) -> ReconcilerStatus {
        let (serving, previous) = (self.serving.as_ref(), self.history.previous());
        let tenant = serving.map_or(self.desired.tenant(), Serving::tenant);
        ReconcilerStatus {
            tenant: tenant.to_owned(),
            guest: self.source(),
            revision: serving.map(|serving| serving.inputs.component.to_string()),
            image: self.history.image().map(str::to_owned),
            previous: previous.map(|previous| previous.digest.to_string()),
            previous_image: previous.and_then(|previous| previous.image.clone()),
            rolled_back: self.history.is_rolled_back(),
            problem: self.problem.clone(),
            may_pass: self.problem.is_some() && self.may_pass(),
            changed: self.changed,
            loading: (self.preparing.is_some() || self.is_new()).then_some(self.began),
        }
    }

    /// Whether the last failure is neither the document's nor the guest's.
    fn may_pass(&self) -> bool {
        let is_of_the_host = self.failed.as_ref().is_some_and(|of| of.due().is_some());
        let pinned = self.pin.as_ref().and_then(|pin| pin.lookup.as_ref());
        let mut lookups = [self.lookup.as_ref(), pinned].into_iter().flatten();
        is_of_the_host || lookups.any(Lookup::found_silence)
    }

    /// What the document names, with the digest of an image that is here.
    fn source(&self) -> String {
        match self.desired.spec.guest.source() {
            Ok(GuestSource::Path(path)) => {
                self.desired.document.resolve(path).display().to_string()
            }
            Ok(GuestSource::Image(image)) => {
                let pulled = self
                    .lookup
                    .as_ref()
                    .and_then(|lookup| lookup.outcome.as_ref().ok());
                pulled.map_or_else(
                    || image.to_string(),
                    |pulled| image.at(pulled.digest).to_string(),
                )
            }
            Err(_) => String::new(),
        }
    }

    /// Whether its first load has not ended yet.
    fn is_new(&self) -> bool {
        self.reading.is_some() && self.serving.is_none() && self.problem.is_none()
    }
}
