//! Detects that limits of the process are nearly used up, and bounds concurrency then. Entry point: [`Pressure::after`].

use crate::output::size;
use crate::status::process::{Share, Usage};
use windlass_fleet::manager::Concurrency;

/// Pressure begins at this part of a limit, in percent.
const HIGH: u64 = 95;
/// Pressure ends below this part. It is lower, so that pressure does not flap.
const LOW: u64 = 90;
/// Pressure begins with fewer free descriptors: a listing of kubeconfigs, a compiler's pipes and a probe may need this many at once.
const FEW: u64 = 16;
/// Pressure ends with this many free descriptors.
const ENOUGH: u64 = 24;
/// While memory is short, the configured concurrency is divided by this.
const MEMORY_DIVISOR: usize = 4;

/// The limits that are nearly used up, and their usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    /// The last usage.
    pub(crate) usage: Usage,
    /// Whether open files and sockets are nearly used up, or the connections that leave room for files.
    pub(crate) descriptors: bool,
    /// Whether memory is nearly used up.
    pub(crate) memory: bool,
}

impl Pressure {
    /// The pressure after this usage.
    #[must_use]
    pub(crate) fn after(self, usage: Usage) -> Self {
        let over = |share: Option<Share>, before: bool| {
            let mark = if before { LOW } else { HIGH };
            share.is_some_and(|share| {
                share.used.saturating_mul(100) >= share.limit.saturating_mul(mark)
            })
        };
        let needed = if self.descriptors { ENOUGH } else { FEW };
        let few = usage
            .descriptors
            .is_some_and(|share| share.limit.saturating_sub(share.used) < needed);
        Self {
            usage,
            descriptors: few
                || over(usage.descriptors, self.descriptors)
                || over(usage.sockets, self.descriptors)
                || over(usage.watches, self.descriptors),
            memory: over(usage.memory, self.memory),
        }
    }

    /// The usage of descriptors, for people.
    pub(crate) fn describe_descriptors(&self) -> String {
        let Some(Share { used, limit }) = self.usage.descriptors else {
            return "not known on this system".to_owned();
        };
        let of = |share: Option<Share>, what: &str| {
            share.map_or_else(String::new, |Share { used, limit }| {
                format!(", {used} of the {limit} connections {what}")
            })
        };
        let sockets = of(self.usage.sockets, "to clusters that leave room for files");
        let watches = of(self.usage.watches, "that watches may have");
        let remedy = if self.descriptors {
            ": raise the limit (ulimit -n, LimitNOFILE) or have fewer clusters; clusters without a connection wait for one"
        } else {
            ""
        };
        format!("{used} of {limit} open files are used{sockets}{watches}{remedy}")
    }

    /// The usage of memory, for people.
    pub(crate) fn describe_memory(&self) -> String {
        match self.usage.memory {
            None => "there is no limit".to_owned(),
            Some(Share { used, limit }) if self.memory => format!(
                "{} of {} are used: raise the limit, watch less, or lower limits.memory of tenants; fewer reconciles run at once",
                size(used),
                size(limit)
            ),
            Some(Share { used, limit }) => format!("{} of {} are used", size(used), size(limit)),
        }
    }

    /// The configured concurrency, or less while memory is short.
    pub(crate) fn bound(&self, asked: Concurrency) -> Concurrency {
        if !self.memory {
            return asked;
        }
        Concurrency {
            global: (asked.global / MEMORY_DIVISOR).max(1),
            ..asked
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(used: u64) -> Usage {
        let share = Some(Share {
            used: used * 10,
            limit: 1000,
        });
        Usage {
            descriptors: share,
            sockets: None,
            watches: None,
            memory: share,
        }
    }

    #[test]
    fn connections_that_are_used_up_are_pressure_though_files_can_be_opened() {
        let sockets = Some(Share {
            used: 32,
            limit: 32,
        });
        let full = Pressure::default().after(Usage {
            sockets,
            ..usage(50)
        });
        assert!(full.descriptors && !full.memory);
        assert_eq!(
            full.describe_descriptors(),
            "500 of 1000 open files are used, 32 of the 32 connections to clusters that leave room for files: \
             raise the limit (ulimit -n, LimitNOFILE) or have fewer clusters; clusters without a connection wait for one"
        );
        assert!(!full.after(usage(50)).descriptors);
    }

    #[test]
    fn pressure_begins_at_one_mark_and_ends_at_a_lower_one() {
        let mut pressure = Pressure::default();
        for (used, expected) in [
            (94, false),
            (95, true),
            (92, true),
            (89, false),
            (92, false),
            (100, true),
        ] {
            pressure = pressure.after(usage(used));
            assert_eq!(
                (pressure.descriptors, pressure.memory),
                (expected, expected),
                "{used}"
            );
        }
    }

    #[test]
    fn with_a_small_limit_pressure_begins_before_files_cannot_be_opened() {
        let of_96 = |used| Usage {
            descriptors: Some(Share { used, limit: 96 }),
            ..Usage::default()
        };
        let mut pressure = Pressure::default();
        for (used, expected) in [
            (80, false),
            (90, true),
            (75, true),
            (72, false),
            (80, false),
        ] {
            pressure = pressure.after(of_96(used));
            assert_eq!(pressure.descriptors, expected, "{used}");
        }
    }

    #[test]
    fn without_a_limit_there_is_no_pressure() {
        let pressure = Pressure::default().after(Usage::default());
        assert!(!pressure.descriptors && !pressure.memory);
        assert_eq!(pressure.describe_memory(), "there is no limit");
    }

    #[test]
    fn while_memory_is_short_a_quarter_runs_and_never_nothing() {
        let asked = |global| Concurrency {
            global,
            per_cluster: 3,
            ..Concurrency::default()
        };
        let short = Pressure::default().after(usage(99));
        assert_eq!(short.bound(asked(64)).global, 16);
        assert_eq!(short.bound(asked(2)).global, 1);
        assert_eq!(Pressure::default().bound(asked(64)).global, 64);
    }
}
