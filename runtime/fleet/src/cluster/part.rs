//! A cluster that is a part of a server. It has no connection, task or state of its own: it has those of its carrier.
//! Entry point: [`Cluster::follow_whole`].

use super::lifecycle::filling;
use super::{Backend, Carrier, Cluster};
use crate::api::ApiError;
use crate::discovery::Discovery;
use crate::kind::{GroupVersionKind, Resource};
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

    /// Says that its first sources have begun to attach. Call it once.
    pub(crate) fn attached(&self) {
        if !self.scope.is_whole() {
            self.one_less_pending();
        }
    }

    /// Takes over the state of the whole server. Called when that has changed, and when a source was attached to this part.
    pub(super) fn follow_whole(&self) {
        let Some(carrier) = self.carrier.load_full() else {
            return;
        };
        let whole = carrier.cluster();
        // Looked up here, as the server's own state has them a moment later. A part that has served stays as ready as its server.
        let stores = if self.has_served() {
            Vec::new()
        } else {
            whole.lifecycle.await_caches();
            whole
                .backend()
                .map(|backend| backend.stores.all())
                .unwrap_or_default()
        };
        if self.lifecycle.follow(&whole.lifecycle, filling(&stores)) {
            self.log_state();
        }
    }

    /// The resource of a kind that only the workspace itself serves, while it is being initialized. Caches have none of these: they are read
    /// live.
    ///
    /// # Errors
    /// `unknown-kind` outside of such workspaces; else as [`Discovery::resolve_in`].
    pub(super) async fn own_kind(
        &self,
        backend: &Backend,
        kind: &GroupVersionKind,
        unknown: ApiError,
    ) -> Result<Arc<Resource>, ApiError> {
        match self.scope.workspace() {
            Some(workspace) if backend.connection.is_of_initializing() => {
                let known = self
                    .own_kinds
                    .get_or_init(|| Box::new(Discovery::new(Arc::default())));
                known.resolve_in(workspace, &backend.connection, kind).await
            }
            _ => Err(unknown),
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
