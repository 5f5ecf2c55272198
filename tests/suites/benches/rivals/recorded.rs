//! What others needed for the same work, on 2 cores, another day: medians of 3 runs. Entry point: [`LINES`].

/// Heads of the columns of every line.
pub(crate) const HEADS: &str = "subject                cold s restart s   rate  p50 ms    p90    p99  p99.9 CPU s/1000     MB   conns";

/// A patch to its watch event with no subject, at the median, where the lines were recorded.
pub(crate) const FLOOR_MS: f64 = 3.6;

/// multicluster-runtime with controller-runtime 0.24.1 (Go), 1 or 16 workers for the process, and kube 5.0 (Rust), a `Controller` per
/// cluster with 16 keys at once each.
pub(crate) const LINES: [&str; 6] = [
    "recorded: Go, 1 worker    5.5      0.42     50     7.0   11.1     20     34      1.33     76      3",
    "                                           200    31.0  151.0    263    286      0.99     77      3",
    "recorded: Go, 16          2.7      0.38     50     7.8   11.7     19     29      1.48     76      3",
    "                                           200     9.8   25.0     61     89      0.95     78      3",
    "recorded: kube-rs         2.6      0.22     50     9.1   11.7     17     31      0.68     54     56",
    "                                           200     8.4   15.0     39     90      0.42     55     56",
];
