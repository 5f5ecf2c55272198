//! What goes wrong, where and when: [`Rule`], about a [`Fault`].

use std::time::Duration;

use super::Damage;
use crate::call::{Call, Verb};

/// What goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// With a request, before anything is done about it.
    Request(RequestFault),
    /// With the answer to a request that is no watch, after everything is done.
    Answer(AnswerFault),
    /// With what a watch sends.
    Event(EventFault),
}

/// What goes wrong with a request, before anything is done about it.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestFault {
    /// It waits.
    Delay(Duration),
    /// It is refused.
    Status {
        /// HTTP status code.
        code: u16,
        /// A `Retry-After` header, of whatever text.
        retry_after: Option<String>,
    },
    /// Its connection breaks.
    Cut,
    /// It is never answered, even after the rule has gone.
    Silence,
    /// It is answered by a replica that lacks the last changes of its cluster.
    Stale {
        /// How many it lacks.
        changes: u64,
    },
}

/// What goes wrong with an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerFault {
    /// The connection breaks before it.
    Lost,
    /// The connection breaks in the middle of it.
    CutInside,
    /// It comes at this rate.
    Slow {
        /// 0 counts as 1.
        bytes_per_second: u32,
    },
    /// It is not what it should be.
    Damaged(Damage),
    /// It never ends, at the speed of the network.
    Endless,
    /// It is so many zeros, compressed a hundred times and marked as gzip.
    Bomb {
        /// Its size once decompressed, in bytes.
        size: u64,
    },
}

/// What goes wrong with what a watch sends.
#[derive(Debug, Clone, PartialEq)]
pub enum EventFault {
    /// It comes late, as does all behind it.
    Delay(Duration),
    /// It never comes, all behind it does.
    Drop,
    /// The watch ends before it, as one does whose time is over.
    End,
    /// The watch breaks before it.
    Cut,
    /// The watch breaks in the middle of it.
    CutInside,
    /// Neither it nor anything behind it comes, even after the rule has gone, and the connection stays open.
    Silence,
    /// It is not what it should be.
    Damaged(Damage),
    /// An `ERROR` event with this code comes instead.
    Error {
        /// HTTP status code: 410 for a version that is too old.
        code: u16,
    },
    /// A line that never ends comes instead, at the speed of the network.
    EndlessLine,
}

impl From<RequestFault> for Fault {
    fn from(fault: RequestFault) -> Self {
        Self::Request(fault)
    }
}

impl From<AnswerFault> for Fault {
    fn from(fault: AnswerFault) -> Self {
        Self::Answer(fault)
    }
}

impl From<EventFault> for Fault {
    fn from(fault: EventFault) -> Self {
        Self::Event(fault)
    }
}

/// What goes wrong, where and when. Without restrictions it strikes always and everywhere.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Rule {
    pub(super) fault: Fault,
    /// Empty: any.
    clusters: Vec<String>,
    /// Empty: any.
    verbs: Vec<Verb>,
    resource: Option<String>,
    pub(super) skip: u64,
    pub(super) times: u64,
    pub(super) chance: f64,
    pub(crate) lasting: Option<Duration>,
}

impl Rule {
    /// A fault without restrictions.
    pub fn new(fault: impl Into<Fault>) -> Self {
        Self {
            fault: fault.into(),
            clusters: Vec::new(),
            verbs: Vec::new(),
            resource: None,
            skip: 0,
            times: u64::MAX,
            chance: 1.0,
            lasting: None,
        }
    }

    /// Only in this cluster, and in others named the same way. Default: in all.
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.clusters.push(name.into());
        self
    }

    /// Only with this verb, and with others named the same way. Default: with all.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Only with this resource, named by its plural. Default: with all, and with discovery.
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Not the first so many times that it could strike. Default: 0.
    pub fn after(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// So many times at most. Default: without end.
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// With this probability, from 0 to 1. Default: 1.
    pub fn chance(mut self, chance: f64) -> Self {
        self.chance = chance;
        self
    }

    /// For so long from when it is added. Default: until it is removed.
    pub fn lasting(mut self, time: Duration) -> Self {
        self.lasting = Some(time);
        self
    }

    pub(super) fn is_about(&self, cluster: &str, call: &Call) -> bool {
        let any_of = |none: bool, found: bool| none || found;
        any_of(
            self.clusters.is_empty(),
            self.clusters.iter().any(|name| name == cluster),
        ) && any_of(self.verbs.is_empty(), self.verbs.contains(&call.verb))
            && self
                .resource
                .as_ref()
                .is_none_or(|plural| *plural == call.resource)
    }
}
