//! A cluster that is a part of a server. It has no connection, task or state of its own: it has those of its carrier.
//! Entry point: [`Cluster::follow_whole`].

use super::{Carrier, Cluster};
use std::sync::Arc;

impl Cluster {
    /// Makes it a part of its carrier, if it has one. `false`: it is a whole server.
    pub(super) fn join_carrier(self: &Arc<Self>) -> bool {
        let Some(carrier) = self.carrier.load_full() else {
            return false;
        };
        carrier.add(self);
        self.follow_whole();
        true
    }

    /// Takes over the state of the whole server. Called when that has changed, and when a source was attached to this part.
    pub(super) fn follow_whole(&self) {
        let Some(carrier) = self.carrier.load_full() else {
            return;
        };
        if self.lifecycle.follow(&carrier.cluster().lifecycle) {
            self.log_state();
        }
    }

    /// Frees the whole server, if nothing else uses it.
    pub(super) fn leave_carrier(&self) {
        if let Some(carrier) = self.carrier.swap(None) {
            carrier.remove(self);
        }
    }
}

impl Carrier {
    /// Gives its parts the state that it has now.
    pub(crate) fn tell_parts(&self) {
        for part in self.parts() {
            part.follow_whole();
        }
    }
}
