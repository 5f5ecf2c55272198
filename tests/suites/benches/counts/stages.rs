//! The stages that an update passes, by the modules whose functions do them. Entry point: [`stage`].

use super::profile::Function;

/// The rows of the ledger.
pub(crate) const STAGES: [&str; 20] = [
    "frames and TLS",
    "calls",
    "head scan",
    "store",
    "own write into the store",
    "sinks",
    "queue",
    "dispatch",
    "admission",
    "scheduler",
    "instance",
    "guest",
    "host calls",
    "write",
    "reconciler",
    "journal",
    "metrics",
    "spans",
    "tasks and timers",
    "rest",
];
const REST: &str = "rest";
const GUEST: &str = "guest";
const STORE: &str = "store";
const OWN_WRITE: &str = "own write into the store";
/// Who puts an own write into the store.
const WRITER: &str = "windlass_fleet::cluster::client";

/// What names of functions begin with, and their stage. The first that fits counts, so that a module stands above its parent.
const MODULES: [(&str, &str); 58] = [
    ("rustls::", "frames and TLS"),
    ("ring", "frames and TLS"),
    ("tokio_rustls::", "frames and TLS"),
    ("hyper_rustls::", "frames and TLS"),
    ("h2::", "frames and TLS"),
    ("hyper::", "frames and TLS"),
    ("hyper_util::", "frames and TLS"),
    ("http_body", "frames and TLS"),
    ("windlass_fleet::http", "calls"),
    ("windlass_fleet::json", "head scan"),
    ("windlass_fleet::cache", STORE),
    ("windlass_fleet::source", "sinks"),
    ("windlass_fleet::predicate", "sinks"),
    ("windlass_fleet::selector", "sinks"),
    ("windlass_fleet::manager::watches", "sinks"),
    ("windlass_fleet::queue", "queue"),
    ("windlass_fleet::manager::shared_queue", "queue"),
    ("windlass_fleet::manager", "dispatch"),
    ("windlass_fleet::controller", "dispatch"),
    ("windlass_fleet::request", "dispatch"),
    ("windlass_fleet::fair", "admission"),
    ("windlass_sandbox::admission", "admission"),
    ("windlass_sandbox::scheduler", "scheduler"),
    ("async_task::", "scheduler"),
    ("windlass_sandbox::instance", "instance"),
    ("windlass_sandbox::guest", "instance"),
    ("windlass_sandbox::contract", "host calls"),
    ("windlass_sandbox::capability", "host calls"),
    ("windlass_sandbox::door", "host calls"),
    ("windlass_sandbox::tenant", "host calls"),
    ("windlass_sandbox::clean", "host calls"),
    ("windlass_sandbox::journal", "journal"),
    ("windlass_sandbox", "instance"),
    ("wasmtime", "instance"),
    ("windlass_fleet::cluster", "write"),
    ("windlass_fleet::api", "write"),
    ("windlass_fleet::grant", "write"),
    ("windlass_fleet::rate_limit", "write"),
    ("windlass_fleet::typed", "write"),
    ("windlass_fleet::metrics", "metrics"),
    ("prometheus_client", "metrics"),
    ("windlass_fleet::trace", "spans"),
    ("windlass::logging", "spans"),
    ("tracing", "spans"),
    ("kube_client::api::watch", STORE),
    ("kube_client", "calls"),
    ("kube_core", "calls"),
    ("tower", "calls"),
    ("k8s_openapi", "head scan"),
    ("kube_runtime::watcher", STORE),
    ("kube_runtime::reflector", STORE),
    ("kube_runtime::controller", "dispatch"),
    ("kube_runtime::scheduler", "queue"),
    ("kube_runtime", "dispatch"),
    ("counts::rivals", "reconciler"),
    ("tokio", "tasks and timers"),
    ("mio::", "tasks and timers"),
    ("windlass::", REST),
];

/// The stage of a function: its own, or that of its nearest caller that has one. So memory that is allocated counts for the stage that asks for it.
pub(crate) fn stage(function: &Function) -> &'static str {
    if function.is_guest {
        return GUEST;
    }
    let found = function.chain.iter().find_map(|name| of_module(name));
    match found {
        Some(STORE)
            if function
                .chain
                .iter()
                .any(|name| path(name).starts_with(WRITER)) =>
        {
            OWN_WRITE
        }
        found => found.unwrap_or(REST),
    }
}

fn of_module(name: &str) -> Option<&'static str> {
    let path = path(name);
    let module = MODULES.iter().find(|(module, _)| path.starts_with(module));
    module.map(|&(_, stage)| stage)
}

/// Where a function's path begins: `<&mut a::B as c::D>::e` is of `a::B`.
fn path(name: &str) -> &str {
    let mut path = name;
    while let Some(rest) = ["<", "&", "mut ", "dyn ", "*", "const "]
        .iter()
        .find_map(|sign| path.strip_prefix(sign))
    {
        path = rest;
    }
    path
}
