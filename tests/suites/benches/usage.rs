//! What a process uses, as the kernel tells it: CPU time, memory, threads, sockets. Entry point: [`Usage::of`].

#![allow(dead_code, reason = "each bench uses the parts it needs")]

use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Ticks of CPU time per second in `/proc/<pid>/stat`, the same on every Linux.
const TICKS: f64 = 100.0;
const KIB: usize = 1024;

/// What a process has used, and holds now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// CPU time of all threads so far, to a hundredth of a second.
    pub(crate) cpu: Duration,
    /// Bytes in memory now.
    pub(crate) resident: usize,
    /// Most bytes in memory so far, since the start or the last [`Usage::forget_peak`].
    pub(crate) peak: usize,
    pub(crate) threads: usize,
    /// Open sockets: connections, where it listens on none.
    pub(crate) sockets: usize,
}

impl Usage {
    /// Of this process.
    pub(crate) fn own() -> Result<Self> {
        Self::of("self")
    }

    /// Of a process by its id.
    pub(crate) fn of(process: impl ToString) -> Result<Self> {
        let folder = PathBuf::from("/proc").join(process.to_string());
        let status = std::fs::read_to_string(folder.join("status")).context("read a status")?;
        let number = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let word = line.and_then(|rest| rest.split_whitespace().next());
            word.and_then(|word| word.parse::<usize>().ok())
                .with_context(|| format!("no {field} in a process's status"))
        };
        let stat = std::fs::read_to_string(folder.join("stat")).context("read a stat")?;
        // The name in parentheses may hold spaces; user and system time are the 12th and 13th field behind it.
        let (_, fields) = stat.rsplit_once(')').context("no name in a stat")?;
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        Ok(Self {
            cpu: Duration::from_secs_f64(ticks / TICKS),
            resident: number("VmRSS:")? * KIB,
            peak: number("VmHWM:")? * KIB,
            threads: number("Threads:")?,
            sockets: sockets(&folder)?,
        })
    }

    /// Has the peak of this process counted from now on.
    pub(crate) fn forget_peak() -> Result<()> {
        std::fs::write("/proc/self/clear_refs", "5").context("reset the peak of memory")
    }
}

fn sockets(folder: &std::path::Path) -> Result<usize> {
    let open = std::fs::read_dir(folder.join("fd")).context("read open files")?;
    let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    Ok(links
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count())
}

/// Mebibytes.
pub(crate) fn mib(bytes: usize) -> f64 {
    bytes as f64 / (KIB * KIB) as f64
}

/// Kibibytes.
pub(crate) fn kib(bytes: f64) -> f64 {
    bytes / KIB as f64
}
