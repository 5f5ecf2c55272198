//! Revokes what the documents no longer grant to a revision that serves. Entry point: [`Reconciler::revoke`].
//!
//! A change of rights has two halves. Removed rights are revoked before anything is loaded, so a load that fails cannot keep them.
//! Additional rights wait for the reload.

use super::{Reconciler, Serving};
use crate::config::load::Configuration;
use crate::guests::{self, ControllerPolicy, Desired, LoadFailure, TenantPolicy};
use crate::reconcilers::environment::{Change, Environment};
use std::sync::Arc;
use windlass_fleet::Grant;

impl Reconciler {
    /// Bounds what serves by what is desired now. A right that was revoked and is granted again returns without a reload. The guest is bounded
    /// when this returns.
    pub(in crate::reconcilers) fn revoke(
        &mut self,
        environment: &mut Environment,
        desired: &Desired,
        configuration: &Configuration,
    ) {
        let (Some(serving), reconciler) = (&mut self.serving, desired.name()) else {
            return;
        };
        let Some(guest) = environment.guests.of(reconciler) else {
            return;
        };
        let mut left = serving.left_by(desired, configuration);
        if guest.is_native() {
            left.lift_timeout();
        }
        let changes = guest.keep_within(&left.rights);
        if !changes && left.has_controller_of(&serving.left) {
            return;
        }
        serving.has_less = guest.is_kept_within_less() || !left.has_controller_of(&serving.policy);
        match guests::controller_of(guest, reconciler, &left) {
            Ok(controller) => {
                tracing::info!(
                    reconciler,
                    "rights or limits revoked or granted again, what serves keeps serving"
                );
                environment
                    .changes
                    .push(Change::Bound(Box::new(controller)));
            }
            // Cannot happen: the controller that serves was made in the same way.
            Err(error) => tracing::error!(reconciler, %error, "the controller is not replaced"),
        }
        serving.left = left;
    }

    /// The problem, and a line about revoked rights if the last good revision serves without them.
    pub(super) fn describe_problem(&self, problem: String) -> String {
        match &self.serving {
            Some(serving) if serving.has_less => format!(
                "{problem}\nuntil then the last good revision serves, with no more than the documents grant now"
            ),
            _ => problem,
        }
    }
}

impl Serving {
    /// What the current documents leave of its policy.
    fn left_by(&self, desired: &Desired, configuration: &Configuration) -> ControllerPolicy {
        let asked = self.asked(desired, configuration);
        self.policy.left_by(asked.unwrap_or_else(|failure| {
            // Cannot happen: the documents are checked.
            tracing::error!(problem = %failure, "the document cannot be read: it grants nothing");
            let mut nothing = self.policy.clone();
            nothing.rights.grant = Arc::new(Grant::none());
            nothing
        }))
    }

    fn asked(
        &self,
        desired: &Desired,
        configuration: &Configuration,
    ) -> Result<ControllerPolicy, LoadFailure> {
        let mut asked = ControllerPolicy::of(&desired.spec, &desired.policy)?;
        // Until the reconciler has moved, its former tenant bounds it too.
        if self.tenant() != desired.tenant() {
            let origin = desired.document.origin;
            let former = TenantPolicy::in_effect(configuration, self.tenant(), origin);
            let former = ControllerPolicy::of(&desired.spec, &former)?;
            asked.rights = former.rights.and(&asked.rights);
        }
        Ok(asked)
    }
}
