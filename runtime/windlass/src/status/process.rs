//! The limits that the operating system sets for this process, and their usage. Entry points: [`Usage::read`] and [`ProcessMetrics`].
//!
//! Read from `/proc` and from the control group. On systems without these, nothing is known.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
pub(crate) use windlass_fleet::file::is_exhausted;

/// The folder of control groups.
const CONTROL_GROUPS: &str = "sys/fs/cgroup";
/// Version 1 shows an unset limit as the largest number, rounded down to a page of at most 64 KiB.
const UNLIMITED: u64 = i64::MAX as u64 >> 16 << 16;

/// At least this many descriptors are kept free of connections.
const LEAST_RESERVE: usize = 32;

/// The usage of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// In use.
    pub(crate) used: u64,
    /// At most.
    pub(crate) limit: u64,
}

/// The usage of each limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Open files and sockets. `None` where it is not known.
    pub(crate) descriptors: Option<Share>,
    /// Connections to API servers. Their limit leaves room for files. `None` without a limit.
    pub(crate) sockets: Option<Share>,
    /// The connections among them that watches hold.
    pub(crate) watches: Option<Share>,
    /// Bytes of memory without reclaimable caches. `None` without a limit.
    pub(crate) memory: Option<Share>,
}

impl Usage {
    /// Reads the usage, without the connections, which the manager counts. Blocks for a moment.
    pub(crate) fn read() -> Self {
        Self {
            descriptors: descriptors(),
            sockets: None,
            watches: None,
            memory: memory(Path::new("/")),
        }
    }
}

/// Raises the soft limit of descriptors to the hard limit. The soft limit is low only for programs that use `select`.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the limit of open files cannot be raised");
        }
    }
}

/// The number of connections to API servers that leaves descriptors for files, probes and compilers. `None` without a limit.
pub(crate) fn socket_budget() -> Option<usize> {
    let limit = usize::try_from(getrlimit(Resource::Nofile).current?).ok()?;
    Some(budget_of(limit))
}

fn budget_of(limit: usize) -> usize {
    let reserve = (limit / 8).max(LEAST_RESERVE);
    // Of a tiny limit connections get half: without any, the process is useless.
    limit.saturating_sub(reserve).max(limit / 2)
}

fn descriptors() -> Option<Share> {
    let limit = getrlimit(Resource::Nofile).current?;
    let used = match fs::read_dir("/proc/self/fd") {
        // One of them is the open folder itself.
        Ok(open) => (open.count() as u64).saturating_sub(1),
        // Too many open files, in the process or on the machine: not even the folder can be opened.
        Err(error) if is_exhausted(&error) => limit,
        Err(_) => return None,
    };
    Some(Share { used, limit })
}

/// The tightest limit among the process's control group and its parents, of either version. `root` is the root of the file system.
fn memory(root: &Path) -> Option<Share> {
    let groups = root.join(CONTROL_GROUPS);
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let all = [
        (V2, groups.clone(), own_group(&own, None)),
        (V1, groups.join("memory"), own_group(&own, Some("memory"))),
    ];
    all.iter()
        .flat_map(|(files, mount, own)| {
            // A container may see its own group as the root, although its path names another folder.
            own.ancestors()
                .map(move |group| files.read(&mount.join(group)))
        })
        .flatten()
        .min_by_key(|share| share.limit.saturating_sub(share.used))
}

/// The path of the process's control group: in the hierarchy of a controller of version 1, else in that of version 2.
fn own_group(cgroups: &str, controller: Option<&str>) -> PathBuf {
    let path = cgroups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let fits = match controller {
            Some(controller) => controllers.split(',').any(|one| one == controller),
            None => controllers.is_empty(),
        };
        fits.then_some(path)
    });
    let path = Path::new(path.unwrap_or_default());
    // Parents above the visible root cannot be read.
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

/// The file names of a version of control groups, and its line in the statistics.
struct GroupFiles {
    limit: &'static str,
    used: &'static str,
    inactive: &'static str,
}

const V1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    inactive: "total_inactive_file ",
};

const V2: GroupFiles = GroupFiles {
    limit: "memory.max",
    used: "memory.current",
    inactive: "inactive_file ",
};

impl GroupFiles {
    /// A group's usage without reclaimable caches; `None` without a limit.
    fn read(&self, group: &Path) -> Option<Share> {
        let read = |name: &str| fs::read_to_string(group.join(name)).ok();
        let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
        let limit = number(self.limit).filter(|limit| *limit < UNLIMITED)?;
        let used = number(self.used)?;
        let inactive = read("memory.stat").and_then(|stat| {
            let line = stat.lines().find_map(|l| l.strip_prefix(self.inactive));
            line?.trim().parse::<u64>().ok()
        });
        Some(Share {
            used: used.saturating_sub(inactive.unwrap_or_default()),
            limit,
        })
    }
}

/// The metrics `process_…`, named as in Prometheus' own clients.
#[derive(Debug)]
pub(crate) struct ProcessMetrics {
    started: SystemTime,
}

impl ProcessMetrics {
    /// Metrics of a process that starts now.
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

/// A number in `/proc/self/status`, by its word.
fn field(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time.
fn processor_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name, in parentheses, may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_the_control_group_without_what_can_be_dropped() {
        let root = root("0::/\n");
        assert_eq!(memory(root.path()), None);
        let write =
            |name: &str, text: &str| write(root.path(), &format!("sys/fs/cgroup/{name}"), text);
        write("memory.max", "max\n");
        write("memory.current", "900\n");
        assert_eq!(memory(root.path()), None, "there is no limit");
        write("memory.max", "1000\n");
        write("memory.stat", "anon 500\ninactive_file 300\n");
        assert_eq!(memory(root.path()), Some(share(600, 1000)));
    }

    /// A file system with these control groups of the process's.
    fn root(cgroups: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/self/cgroup", cgroups);
        root
    }

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn share(used: u64, limit: u64) -> Share {
        Share { used, limit }
    }

    #[test]
    fn memory_limits_of_version_1_are_seen_in_the_process_own_group_and_around_it() {
        let root = root(
            "11:cpu,cpuacct:/other\n4:hugetlb,memory:/docker/abc\n1:name=systemd:/docker/abc\n",
        );
        let write = |group: &str, name: &str, text: &str| {
            write(
                root.path(),
                &format!("sys/fs/cgroup/memory{group}/{name}"),
                text,
            );
        };
        for group in ["", "/docker/abc"] {
            write(group, "memory.limit_in_bytes", "9223372036854771712\n");
            write(group, "memory.usage_in_bytes", "900\n");
        }
        assert_eq!(memory(root.path()), None, "nobody has set a limit");
        write("/docker/abc", "memory.limit_in_bytes", "1000\n");
        write(
            "/docker/abc",
            "memory.stat",
            "inactive_file 1\ntotal_inactive_file 300\n",
        );
        assert_eq!(memory(root.path()), Some(share(600, 1000)));
        // As in a container, which sees its own group as the root.
        fs::remove_dir_all(root.path().join("sys/fs/cgroup/memory/docker")).unwrap();
        write("", "memory.limit_in_bytes", "2000\n");
        assert_eq!(memory(root.path()), Some(share(900, 2000)));
    }

    #[test]
    fn the_tightest_of_the_limits_around_a_process_counts() {
        let root = root("0::/../system.slice/windlass.service\n");
        let write = |group: &str, limit: &str| {
            let file = |name: &str| format!("sys/fs/cgroup/{group}/{name}");
            write(root.path(), &file("memory.max"), limit);
            write(root.path(), &file("memory.current"), "400\n");
        };
        write("system.slice/windlass.service", "max\n");
        write("system.slice", "500\n");
        assert_eq!(memory(root.path()), Some(share(400, 500)));
        write("system.slice/windlass.service", "450\n");
        assert_eq!(memory(root.path()), Some(share(400, 450)));
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
