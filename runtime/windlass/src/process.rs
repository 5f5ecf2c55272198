//! What the operating system gives this process, and how much of it is used. Entry points: [`Usage::read`] and
//! [`ProcessMetrics`].
//!
//! Read from `/proc` and from the control group, where there are such; elsewhere there is nothing to tell.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the control group of a container is seen from inside.
const CONTROL_GROUP: &str = "/sys/fs/cgroup";

/// Fewest descriptors that are kept free of connections.
const LEAST_RESERVE: usize = 32;

/// Something that there is so much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// In use.
    pub(crate) used: u64,
    /// At most.
    pub(crate) limit: u64,
}

/// What is used, of what is limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Open files and sockets. `None` where it cannot be told.
    pub(crate) descriptors: Option<Share>,
    /// Connections to API servers, of those that leave room for files. `None` where there is no limit.
    pub(crate) sockets: Option<Share>,
    /// Those of them that watches may have for themselves.
    pub(crate) watches: Option<Share>,
    /// Bytes of memory that cannot be had back by dropping caches. `None` where there is no limit.
    pub(crate) memory: Option<Share>,
}

impl Usage {
    /// As it is now, but for the sockets, which the manager counts. Blocks for a moment.
    pub(crate) fn read() -> Self {
        Self {
            descriptors: descriptors(),
            sockets: None,
            watches: None,
            memory: memory(Path::new(CONTROL_GROUP)),
        }
    }
}

/// Takes as many descriptors as the system lets this process have: the soft limit is there for programs that do not know better.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
}

/// How many descriptors connections to API servers may take, so that there are always some for files, probes and compilers. `None`
/// where there is no limit.
pub(crate) fn socket_budget() -> Option<usize> {
    let limit = usize::try_from(getrlimit(Resource::Nofile).current?).ok()?;
    Some(budget_of(limit))
}

fn budget_of(limit: usize) -> usize {
    let reserve = (limit / 8).max(LEAST_RESERVE);
    // With next to nothing, half of it: without any connection the process is of no use.
    limit.saturating_sub(reserve).max(limit / 2)
}

fn descriptors() -> Option<Share> {
    let limit = getrlimit(Resource::Nofile).current?;
    let used = match fs::read_dir("/proc/self/fd") {
        // One is that of the folder itself.
        Ok(open) => (open.count() as u64).saturating_sub(1),
        // Too many open files, in the process or on the machine: none is left to look with.
        Err(error) if is_exhausted(&error) => limit,
        Err(_) => return None,
    };
    Some(Share { used, limit })
}

/// Whether an error says that there are no more descriptors.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    exhausted
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn memory(group: &Path) -> Option<Share> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let limit = number("memory.max")?;
    let used = number("memory.current")?;
    let inactive = read("memory.stat").and_then(|stat| {
        let line = stat.lines().find_map(|l| l.strip_prefix("inactive_file "));
        line?.trim().parse::<u64>().ok()
    });
    Some(Share {
        used: used.saturating_sub(inactive.unwrap_or_default()),
        limit,
    })
}

/// `process_…`, as Prometheus' own clients tell them.
#[derive(Debug)]
pub(crate) struct ProcessMetrics {
    started: SystemTime,
}

impl ProcessMetrics {
    /// Of a process that starts now.
    pub(crate) fn starting() -> Self {
        Self {
            started: SystemTime::now(),
        }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut gauge = |name: &str, help: &str, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(family)
        };
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let started = Some(started.as_secs_f64());
        let help = "When the process started, in seconds since the epoch.";
        gauge("process_start_time_seconds", help, started)?;
        let usage = Usage::read();
        let open = usage.descriptors.map(|share| share.used as f64);
        gauge("process_open_fds", "Open files and sockets.", open)?;
        let most = usage.descriptors.map(|share| share.limit as f64);
        gauge("process_max_fds", "Most open files and sockets.", most)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kibibytes = |name: &str| field(&status, name).map(|kibibytes| kibibytes * 1024.0);
        let (resident, all) = (kibibytes("VmRSS:"), kibibytes("VmSize:"));
        gauge("process_resident_memory_bytes", "Memory in use.", resident)?;
        gauge("process_virtual_memory_bytes", "Address space in use.", all)?;
        gauge("process_threads", "Threads.", field(&status, "Threads:"))?;
        if let Some(seconds) = processor_seconds() {
            let help = "Processor time used.";
            let family = encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                MetricType::Counter,
            )?;
            ConstCounter::new(seconds).encode(family)?;
        }
        Ok(())
    }
}

/// The number behind a word of `/proc/self/status`.
fn field(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time.
fn processor_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name, in parentheses, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_the_control_group_without_what_can_be_dropped() {
        let group = tempfile::tempdir().unwrap();
        assert_eq!(memory(group.path()), None);
        let write = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        write("memory.max", "max\n");
        write("memory.current", "900\n");
        assert_eq!(memory(group.path()), None, "there is no limit");
        write("memory.max", "1000\n");
        write("memory.stat", "anon 500\ninactive_file 300\n");
        let expected = Share {
            used: 600,
            limit: 1000,
        };
        assert_eq!(memory(group.path()), Some(expected));
    }

    #[test]
    fn connections_leave_an_eighth_of_the_descriptors_and_never_less_than_a_few() {
        for (limit, budget) in [
            (1 << 20, 917_504),
            (1024, 896),
            (256, 224),
            (64, 32),
            (20, 10),
        ] {
            assert_eq!(budget_of(limit), budget, "of {limit}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_open_file_is_one_more_descriptor() {
        // Other tests open files at the same time: what one of them opens must not fail this one.
        let opened: Vec<_> = (0..100)
            .map(|_| fs::File::open("/proc/self/stat").unwrap())
            .collect();
        let with = descriptors().unwrap();
        assert!(with.used >= 100 && with.used <= with.limit, "{with:?}");
        drop(opened);
        let mut text = String::new();
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::starting()));
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for name in [
            "process_open_fds ",
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
        ] {
            assert!(text.contains(&format!("\n{name}")), "{name} in {text}");
        }
    }
}
