//! The name of the machine or pod that this process runs on. Entry point: [`machine`].

/// The pod's name if the process runs in one, else the machine's. A pod says its name in `POD_NAME`, which its manifest sets from
/// `metadata.name`; without that it is the host's name, which is cut at 63 characters and is the node's with `hostNetwork`.
pub(crate) fn machine() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|name| !name.is_empty());
    let name = variable("POD_NAME").or_else(|| variable("HOSTNAME"));
    let name = name.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let name = name.map(|name| name.trim().to_owned());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "windlass".to_owned())
}
