//! The state of a manager as metrics read it. Entry point: the [`Observe`] of [`Core`].

use super::core::Core;
use crate::cluster::ClusterState;
use crate::metrics::{
    AnswersNow, ClusterNow, ControllerNow, LeaseNow, Observe, ProviderNow, ShardsNow, Snapshot,
};
use crate::queue::ControllerId;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

impl Observe for Core {
    fn observe(&self) -> Snapshot {
        let mut running: HashMap<ControllerId, Vec<Duration>> = HashMap::new();
        let now = self.queue.now();
        let (global, run_times) = self
            .queue
            .read(|queue| (queue.limits().global, queue.run_times(now)));
        for (controller, time) in run_times {
            running.entry(controller).or_default().push(time);
        }
        let watches = self.watches.running();
        let registrations = self.registrations.all();
        let controllers = registrations.iter().map(|registration| {
            let id = registration.id;
            let (counts, totals) = self
                .queue
                .read(|queue| (queue.counts(id), queue.totals(id)));
            let (unmapped, missed) = watches.waiting(id);
            ControllerNow {
                metrics: registration.metrics.clone(),
                concurrency: self
                    .registrations
                    .concurrency_of(&registration.controller())
                    .unwrap_or(global),
                counts,
                failing_watches: watches.problems(id).len(),
                totals,
                unmapped,
                missed,
                running: running.remove(&id).unwrap_or_default(),
            }
        });
        let controllers = controllers.collect();
        let clusters = self.fleet.clusters();
        let clusters = clusters.iter().map(|cluster| {
            let status = cluster.status();
            ClusterNow {
                metrics: cluster.metrics().clone(),
                state: status.state.as_str(),
                ready: status.state == ClusterState::Ready,
                stores: status.stores.len(),
                connections: status.connections.http1.open + status.connections.http2.open,
                objects: status.objects,
                bytes: status.bytes,
                events_dropped: status.events_dropped,
                replacement_pending: status.replacement.is_some(),
            }
        });
        let lease = self.leadership.status().map(|status| LeaseNow {
            name: status.name,
            leads: status.leads,
            slow_renewals: status.slow_renewals,
        });
        let shards = self.leadership.shards().map(|status| ShardsNow {
            name: status.name,
            held: status.held,
            ownerless: status.ownerless,
            moves: status.moves,
        });
        let answers = self.transports.answers();
        let providers = self.providers.statuses().into_iter();
        let providers = providers.map(|provider| ProviderNow {
            name: provider.name,
            engaged: provider.engaged,
            refused: provider.refused,
            last_listed: provider.last_listed,
            problems: provider.problems.len(),
        });
        Snapshot {
            controllers,
            clusters: clusters.collect(),
            providers: providers.collect(),
            leases: lease.into_iter().collect(),
            shards: shards.into_iter().collect(),
            answers: vec![AnswersNow {
                held: answers.held,
                peak: answers.peak,
                limit: answers.limit,
                rejected: answers.rejected,
            }],
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}
