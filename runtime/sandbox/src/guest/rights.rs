//! A guest's rights and limits, and their intersection. Entry point: [`Rights`].

use crate::options::{Isolation, Limits, Rate, Reuse};
use std::sync::Arc;
use windlass_fleet::Grant;
use windlass_fleet::outbound::HttpGrant;

/// A guest's rights and limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Rights {
    /// Its rights in clusters, and the user that it impersonates.
    pub grant: Arc<Grant>,
    /// What it may call besides API servers.
    pub http: Arc<HttpGrant>,
    /// Bounds of its calls.
    pub limits: Limits,
    /// How its instances are kept apart.
    pub isolation: Isolation,
}

impl Rights {
    /// The intersection: what both allow, with the smaller of each limit.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            grant: Arc::new(self.grant.and(&other.grant)),
            http: Arc::new(self.http.and(&other.http)),
            limits: self.limits.and(&other.limits),
            isolation: self.isolation.and(other.isolation),
        }
    }
}

impl Limits {
    /// The smaller of each limit.
    fn and(&self, other: &Self) -> Self {
        Self {
            memory: self.memory.min(other.memory),
            timeout: self.timeout.min(other.timeout),
            table_elements: self.table_elements.min(other.table_elements),
            handles: self.handles.min(other.handles),
            host_call_bytes: self.host_call_bytes.min(other.host_call_bytes),
            object_bytes: self.object_bytes.min(other.object_bytes),
            response_bytes: self.response_bytes.min(other.response_bytes),
            batch_operations: self.batch_operations.min(other.batch_operations),
            list_items: self.list_items.min(other.list_items),
            host_calls: self.host_calls.min(other.host_calls),
            requests_per_second: slower(self.requests_per_second, other.requests_per_second),
            log_bytes: self.log_bytes.min(other.log_bytes),
            log_bytes_per_second: slower(self.log_bytes_per_second, other.log_bytes_per_second),
        }
    }
}

impl Isolation {
    /// The stricter one.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Reuse(one), Self::Reuse(other)) => Self::Reuse(Reuse {
                calls: one.calls.min(other.calls),
                age: one.age.min(other.age),
                memory: one.memory.min(other.memory),
                idle: one.idle.min(other.idle),
            }),
            _ => Self::Fresh,
        }
    }
}

fn slower(one: Option<Rate>, other: Option<Rate>) -> Option<Rate> {
    match (one, other) {
        (Some(one), Some(other)) if other.per_second < one.per_second => Some(other),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn rate(per_second: u32) -> Option<Rate> {
        Some(Rate { per_second })
    }

    #[test]
    fn the_smaller_of_two_limits_is_left() {
        let one = Limits {
            memory: 8 << 20,
            requests_per_second: None,
            log_bytes_per_second: rate(10),
            ..Limits::default()
        };
        let other = Limits {
            timeout: Duration::from_secs(1),
            requests_per_second: rate(5),
            log_bytes_per_second: rate(20),
            ..Limits::default()
        };
        let both = Limits {
            memory: 8 << 20,
            timeout: Duration::from_secs(1),
            requests_per_second: rate(5),
            log_bytes_per_second: rate(10),
            ..Limits::default()
        };
        assert_eq!(one.and(&other), both);
        assert_eq!(other.and(&one), both);
    }

    #[test]
    fn instances_are_reused_if_both_allow_it() {
        let few = Isolation::Reuse(Reuse {
            calls: 2,
            ..Reuse::default()
        });
        let usual = Isolation::Reuse(Reuse::default());
        assert_eq!(usual.and(few), few);
        assert_eq!(few.and(Isolation::Fresh), Isolation::Fresh);
    }
}
