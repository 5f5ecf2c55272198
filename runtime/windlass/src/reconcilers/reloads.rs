//! Counts reloads: changes of a Reconciler's guest, configuration, limits or rules while it serves. Entry point: [`Reloads`].

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Tenant, reconciler and result.
type Labels = [(&'static str, String); 3];

/// How a reload ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    /// The change is in effect.
    Taken,
    /// The last good revision keeps serving.
    Refused,
}

impl Reload {
    const ALL: [Self; 2] = [Self::Taken, Self::Refused];

    fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Refused => "refused",
        }
    }
}

/// The counts, by reconciler. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reloads(Family<Labels, Counter>);

impl Reloads {
    /// Registers the metric.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "windlass_guest_reloads",
            "Changes of a Reconciler or its guest while it ran",
            self.0.clone(),
        );
    }

    /// Counts a reload.
    pub(crate) fn count(&self, tenant: &str, reconciler: &str, reload: Reload) {
        let labels = labels(tenant, reconciler, reload);
        self.0.get_or_create(&labels).inc();
    }

    /// Removes the series of a reconciler that has left a tenant.
    pub(crate) fn forget(&self, tenant: &str, reconciler: &str) {
        for reload in Reload::ALL {
            self.0.remove(&labels(tenant, reconciler, reload));
        }
    }
}

fn labels(tenant: &str, reconciler: &str, reload: Reload) -> Labels {
    [
        ("tenant", tenant.to_owned()),
        ("reconciler", reconciler.to_owned()),
        ("result", reload.as_str().to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_until_their_reconciler_goes() {
        let (reloads, mut registry) = (Reloads::default(), Registry::default());
        reloads.register(&mut registry);
        reloads.count("team-a", "hello", Reload::Taken);
        reloads.count("team-a", "hello", Reload::Refused);
        reloads.count("team-a", "hello", Reload::Taken);
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let taken = "windlass_guest_reloads_total{tenant=\"team-a\",reconciler=\"hello\",result=\"taken\"} 2\n";
        assert!(shown().contains(taken), "{}", shown());
        reloads.forget("team-a", "hello");
        assert!(!shown().contains("team-a"), "{}", shown());
    }
}
