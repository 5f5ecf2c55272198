//! Has the manager do what became of the reconcilers, each change after the one before of the same reconciler and none after
//! another's. Entry point: [`Changes::apply`].

use crate::reconcilers::Change;
use futures::FutureExt;
use std::collections::BTreeMap;
use tokio::task::{Id, JoinSet};
use windlass_fleet::ControllerName;
use windlass_fleet::controller::Controller;
use windlass_fleet::manager::ManagerHandle;

/// Changes on their way to the manager.
pub(super) struct Changes {
    manager: ManagerHandle,
    /// Reconcilers that leave a tenant.
    moving: BTreeMap<ControllerName, Moving>,
    left: JoinSet<()>,
}

/// A reconciler that leaves a tenant.
struct Moving {
    task: Id,
    /// What is put when it has left.
    next: Option<Box<Controller>>,
}

impl Changes {
    /// None yet.
    pub(super) fn new(manager: ManagerHandle) -> Self {
        Self {
            manager,
            moving: BTreeMap::new(),
            left: JoinSet::new(),
        }
    }

    /// Does it, or has it follow the move that is under way. Call it on a tokio runtime.
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Put(controller) => {
                let (tenant, name) = (controller.tenant().clone(), controller.name().clone());
                if self.put(controller) {
                    tracing::info!(%tenant, reconciler = %name, "reconciler changed");
                }
            }
            Change::Move(tenant, name) => {
                if let Some(moving) = self.moving.get_mut(&name) {
                    // It was not put yet where it leaves from.
                    moving.next = None;
                    return;
                }
                let (manager, left) = (self.manager.clone(), name.clone());
                let mut removal = Box::pin(async move {
                    manager.remove_controller(&tenant, &name).await;
                    tracing::info!(%tenant, reconciler = %name, "reconciler moved to another tenant");
                });
                // Out it is at once, but what runs of it may take as long as a drain to end.
                if removal.as_mut().now_or_never().is_none() {
                    let task = self.left.spawn(removal).id();
                    self.moving.insert(left, Moving { task, next: None });
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

    /// Waits until a reconciler has left its tenant, and does what has to follow.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing.
    pub(super) async fn moved(&mut self) {
        let task = match self.left.join_next_with_id().await {
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

    /// Puts a controller in the place of the one before it, or has it follow the move that is under way. Returns whether it is, or
    /// will be, there.
    pub(super) fn put(&mut self, controller: Box<Controller>) -> bool {
        let (tenant, name) = (controller.tenant().clone(), controller.name().clone());
        if let Some(moving) = self.moving.get_mut(&name) {
            moving.next = Some(controller);
            return true;
        }
        if let Err(error) = self.manager.put_controller(*controller) {
            tracing::warn!(reconciler = %name, %error, "the change came too late");
            return false;
        }
        // Other code, configuration or rights may mean something else for every object.
        self.manager.resync(&tenant, &name);
        true
    }
}

/// Takes a controller out: what runs may take as long as a drain to end, and other changes do not wait for that. The controller is
/// out when this returns: put again meanwhile, it is not taken out once more, and goes on with what runs.
fn in_background(removal: impl Future<Output = ()> + Send + 'static) {
    let mut removal = Box::pin(removal);
    if removal.as_mut().now_or_never().is_none() {
        tokio::spawn(removal);
    }
}
