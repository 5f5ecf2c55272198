//! Applies changes of reconcilers to the manager. Entry point: [`Changes::apply`].
//!
//! Changes of one reconciler are applied in order. Changes of different reconcilers do not wait for each other.

use crate::reconcilers::Change;
use futures::FutureExt;
use std::collections::BTreeMap;
use tokio::task::{Id, JoinSet};
use windlass_fleet::ControllerName;
use windlass_fleet::controller::Controller;
use windlass_fleet::manager::ManagerHandle;

/// Applies changes, and knows the reconcilers that are moving.
pub(super) struct Changes {
    manager: ManagerHandle,
    /// Reconcilers that move to another tenant.
    moving: BTreeMap<ControllerName, Moving>,
    removals: JoinSet<()>,
}

/// A reconciler that moves: its old controller is being removed.
struct Moving {
    task: Id,
    /// The controller to add after that.
    next: Option<Box<Controller>>,
}

impl Changes {
    /// Without any change.
    pub(super) fn new(manager: ManagerHandle) -> Self {
        Self {
            manager,
            moving: BTreeMap::new(),
            removals: JoinSet::new(),
        }
    }

    /// Applies a change, or keeps it until a move of the reconciler has ended. Call it on a tokio runtime.
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Put(controller) => {
                let (tenant, name) = (controller.tenant().clone(), controller.name().clone());
                if self.put(controller) {
                    tracing::info!(%tenant, reconciler = %name, "reconciler changed");
                }
            }
            Change::Bound(controller) => {
                self.put(controller);
            }
            Change::Move(tenant, name) => {
                if let Some(moving) = self.moving.get_mut(&name) {
                    // The controller to move was not added yet.
                    moving.next = None;
                    return;
                }
                let (manager, moving) = (self.manager.clone(), name.clone());
                let mut removal = Box::pin(async move {
                    manager.remove_controller(&tenant, &name).await;
                    tracing::info!(%tenant, reconciler = %name, "reconciler moved to another tenant");
                });
                // The first poll removes the controller. Its runs may take as long as a drain to end.
                if removal.as_mut().now_or_never().is_none() {
                    let task = self.removals.spawn(removal).id();
                    self.moving.insert(moving, Moving { task, next: None });
                }
            }
            Change::Remove(tenant, name) => {
                if let Some(moving) = self.moving.get_mut(&name) {
                    moving.next = None;
                }
                let manager = self.manager.clone();
                in_background(async move {
                    manager.remove_controller(&tenant, &name).await;
                    tracing::info!(%tenant, reconciler = %name, "reconciler removed");
                });
            }
        }
    }

    /// Waits until a controller that moves is removed, and adds the next one.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing.
    pub(super) async fn moved(&mut self) {
        let task = match self.removals.join_next_with_id().await {
            Some(Ok((task, ()))) => task,
            Some(Err(error)) => error.id(),
            None => std::future::pending().await,
        };
        let mut moving = self.moving.iter();
        let moved = moving.find(|(_, moving)| moving.task == task);
        let moved = moved.map(|(name, _)| name.clone());
        let moved = moved.and_then(|name| self.moving.remove(&name));
        if let Some(controller) = moved.and_then(|moving| moving.next) {
            self.put(controller);
        }
    }

    /// Adds or replaces a controller, or keeps it until a move of the reconciler has ended. Returns false if the manager has drained.
    pub(super) fn put(&mut self, controller: Box<Controller>) -> bool {
        let (tenant, name) = (controller.tenant().clone(), controller.name().clone());
        if let Some(moving) = self.moving.get_mut(&name) {
            moving.next = Some(controller);
            return true;
        }
        if let Err(error) = self.manager.put_controller(*controller) {
            tracing::warn!(reconciler = %name, %error, "the change is too late: the manager drains");
            return false;
        }
        // Other code, configuration or rights may give another result for every object.
        self.manager.resync(&tenant, &name);
        true
    }
}

/// Removes a controller. It is removed when this returns, but its runs may take as long as a drain to end. A controller of the same
/// name that is added meanwhile is kept, and takes over the runs.
fn in_background(removal: impl Future<Output = ()> + Send + 'static) {
    let mut removal = Box::pin(removal);
    if removal.as_mut().now_or_never().is_none() {
        tokio::spawn(removal);
    }
}
