//! The tasks, sockets and memory that a test uses. Entry point: [`Footprint::now`].
//!
//! Tests of one binary share a process. So tasks are counted by runtime, and sockets by the port at
//! one of their ends. Other descriptors and memory cannot be attributed to a test: only a test in a process of its own may use them.

use std::collections::HashSet;
use std::fs;

use anyhow::{Context as _, Result};

/// The usage at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Tasks of the current tokio runtime that have not ended.
    pub tasks: usize,
    /// Open descriptors of this process for TCP sockets with one of the ports at either end.
    pub sockets: usize,
    /// All open descriptors of this process.
    pub descriptors: usize,
    /// Resident memory of this process, in bytes.
    pub resident: usize,
}

impl Footprint {
    /// Measures the current runtime and process.
    ///
    /// # Errors
    /// If `/proc` does not exist, as on systems other than Linux.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn now(ports: &[u16]) -> Result<Self> {
        let tasks = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks();
        Ok(Self {
            tasks,
            sockets: sockets(ports)?,
            descriptors: descriptors()?,
            resident: resident("self")?,
        })
    }
}

fn descriptors() -> Result<usize> {
    let open = fs::read_dir("/proc/self/fd").context("no list of open descriptors")?;
    // The list itself uses one descriptor.
    Ok(open.count().saturating_sub(1))
}

fn sockets(ports: &[u16]) -> Result<usize> {
    let table = fs::read_to_string("/proc/self/net/tcp").context("no table of TCP sockets")?;
    let ours: HashSet<String> = table
        .lines()
        .filter_map(|line| of_ports(line, ports))
        .collect();
    let open = fs::read_dir("/proc/self/fd").context("no list of open descriptors")?;
    // A descriptor may be closed after it was listed.
    let targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    Ok(targets
        .filter(|target| ours.contains(&*target.to_string_lossy()))
        .count())
}

/// The name of a socket's descriptor, if one of its ends has one of the ports.
fn of_ports(line: &str, ports: &[u16]) -> Option<String> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    let ends = [port(fields.get(1)?)?, port(fields.get(2)?)?];
    let inode = fields.get(9)?;
    ends.iter()
        .any(|end| ports.contains(end))
        .then(|| format!("socket:[{inode}]"))
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident(process: &str) -> Result<usize> {
    let file = format!("/proc/{process}/status");
    let status = fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<usize>().ok());
    Ok(kib.context("the status names no resident memory")? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn sockets_of_a_port_count_at_both_ends_and_no_longer_than_they_are_open() -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let ports = [listener.local_addr()?.port()];
        assert_eq!(Footprint::now(&ports)?.sockets, 1);
        let (client, accepted) = tokio::join!(
            TcpStream::connect(listener.local_addr()?),
            listener.accept()
        );
        assert_eq!(Footprint::now(&ports)?.sockets, 3);
        drop((client?, accepted?));
        assert_eq!(Footprint::now(&ports)?.sockets, 1);
        Ok(())
    }

    #[tokio::test]
    async fn tasks_are_counted_while_they_live() -> Result<()> {
        let before = Footprint::now(&[])?.tasks;
        let (stop, wait) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(wait);
        assert_eq!(Footprint::now(&[])?.tasks, before + 1);
        drop(stop);
        let _ = task.await?;
        assert_eq!(Footprint::now(&[])?.tasks, before);
        Ok(())
    }
}
