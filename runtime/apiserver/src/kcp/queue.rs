//! What kcp's controllers have still to look at: [`Queue`], filled by every change of an object that they are about.

use std::collections::{BTreeSet, VecDeque};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::kinds::{APIS, CORE, TENANCY};
use crate::resource::CollectionId;
use crate::store::{Event, EventKind};

/// The kinds of objects that controllers look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Workspace,
    LogicalCluster,
    WorkspaceType,
    Schema,
    Export,
    Slice,
    Binding,
    /// Everything in a workspace that waits for objects to go.
    Waiting,
}

/// One object to look at, in one logical cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) cluster: Box<str>,
    pub(crate) subject: Subject,
    pub(crate) name: Box<str>,
}

/// Items in the order in which they came, none of them twice.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    items: Mutex<(VecDeque<Item>, BTreeSet<Item>)>,
    bell: Notify,
}

impl Queue {
    pub(crate) fn push(&self, cluster: &str, subject: Subject, name: &str) {
        let item = Item {
            cluster: cluster.into(),
            subject,
            name: name.into(),
        };
        let mut items = self.items.lock();
        if items.1.insert(item.clone()) {
            items.0.push_back(item);
            self.bell.notify_one();
        }
    }

    pub(crate) fn pop(&self) -> Option<Item> {
        let mut items = self.items.lock();
        let item = items.0.pop_front()?;
        items.1.remove(&item);
        Some(item)
    }

    /// Waits until something is pushed.
    pub(crate) async fn pushed(&self) {
        self.bell.notified().await;
    }

    /// Adds what a change in a logical cluster is about.
    pub(crate) fn changed(&self, cluster: &str, id: &CollectionId, event: &Event) {
        let subject = match (&*id.group, &*id.plural) {
            (TENANCY, "workspaces") => Subject::Workspace,
            (TENANCY, "workspacetypes") => Subject::WorkspaceType,
            (CORE, "logicalclusters") => Subject::LogicalCluster,
            (APIS, "apiresourceschemas") => Subject::Schema,
            (APIS, "apiexports") => Subject::Export,
            (APIS, "apiexportendpointslices") => Subject::Slice,
            (APIS, "apibindings") => Subject::Binding,
            _ => {
                if event.kind == EventKind::Deleted {
                    self.push(cluster, Subject::Waiting, "");
                }
                return;
            }
        };
        self.push(cluster, subject, &event.object.head.name);
        if event.kind == EventKind::Deleted {
            self.push(cluster, Subject::Waiting, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_waits_once_however_often_it_is_pushed() {
        let queue = Queue::default();
        for name in ["a", "b", "a"] {
            queue.push("c", Subject::Export, name);
        }
        let names: Vec<Box<str>> = std::iter::from_fn(|| queue.pop())
            .map(|item| item.name)
            .collect();
        assert_eq!(names, ["a".into(), "b".into()] as [Box<str>; 2]);
    }
}
