//! The calls of a member, and their outcomes. Entry point: [`Call::wire`].

use super::Sharding;
use super::assignment::Assignment;
use super::ownership::Moves;
use super::record::{ASSIGNMENT, LeaseObject, Listing, MEMBER, MemberState};
use crate::election::record::Record;
use std::sync::Arc;

/// A call, and the incarnation that sends it. An outcome for an incarnation that is over is ignored.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) incarnation: Arc<str>,
    pub(crate) request: Request,
}

/// What a call does.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    /// Lists all Leases of the sharding.
    List,
    /// Creates or renews the member's own Lease.
    Renew {
        /// `None`: creates it.
        base: Option<Arc<LeaseObject>>,
        record: Record,
        state: MemberState,
    },
    /// Creates the assignment, or replaces it if it is unchanged since it was read.
    Assign {
        /// `None`: creates it.
        base: Option<Arc<LeaseObject>>,
        record: Record,
        assignment: Assignment,
        moves: Moves,
    },
    /// Deletes a member's Lease if it is unchanged since it was read.
    Delete(Arc<LeaseObject>),
}

/// A call as the caller sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Lists the Leases with the label [`super::record::LABEL`], without a resourceVersion: as new as the store itself. Answer: a `Listing`.
    List,
    /// Creates a Lease of this body.
    Create(Vec<u8>),
    /// Replaces the Lease of this name.
    Replace(String, Vec<u8>),
    /// Deletes the Lease of this name, with this resourceVersion as a precondition.
    Delete(String, Arc<str>),
}

impl Call {
    /// The call as it is sent.
    pub(crate) fn wire(&self, sharding: &Sharding) -> Wire {
        match &self.request {
            Request::List => Wire::List,
            Request::Renew {
                base,
                record,
                state,
            } => {
                let text = serde_json::to_string(state).unwrap_or_default();
                let name = sharding.lease_of(&self.incarnation);
                write(base.as_deref(), sharding, name, record, (MEMBER, text))
            }
            Request::Assign {
                base,
                record,
                assignment,
                ..
            } => {
                let name = sharding.name.clone();
                write(
                    base.as_deref(),
                    sharding,
                    name,
                    record,
                    (ASSIGNMENT, assignment.text()),
                )
            }
            Request::Delete(lease) => Wire::Delete(lease.name.clone(), lease.version.clone()),
        }
    }
}

fn write(
    base: Option<&LeaseObject>,
    sharding: &Sharding,
    name: String,
    record: &Record,
    annotation: (&str, String),
) -> Wire {
    let body = LeaseObject::body(base, sharding, &name, record, annotation);
    match base {
        Some(_) => Wire::Replace(name, body),
        None => Wire::Create(body),
    }
}

/// The outcome of a call.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// All Leases.
    List(Listing),
    /// The Lease as it was created or replaced.
    Written(Arc<LeaseObject>),
    /// The Lease was deleted.
    Deleted,
    /// There is no such Lease.
    Absent,
    /// The Lease has changed since it was read, or exists already.
    Conflict,
    /// Unknown: a write may have happened, and may still happen.
    Failed,
}
