//! Metrics in the format that a scraper asks for. Entry point: [`answer`].

use axum::http::{HeaderMap, header};
use std::collections::BTreeSet;

/// The format that Prometheus and most agents request today.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The format that every scraper understands.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The content type and text for a request with these headers, of the metrics as OpenMetrics text.
pub(super) fn answer(headers: &HeaderMap, open_metrics: String) -> (&'static str, String) {
    let accepts = headers.get_all(header::ACCEPT).iter();
    let asked = accepts
        .filter_map(|accept| accept.to_str().ok())
        .any(|accept| accept.contains("application/openmetrics-text"));
    if asked {
        (OPEN_METRICS, open_metrics)
    } else {
        (TEXT, plain(&open_metrics))
    }
}

/// The older format: the description of a counter has the name of its series, and there is no end mark.
fn plain(open_metrics: &str) -> String {
    let counters: BTreeSet<&str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        match described(line) {
            Some((word, name, rest)) if counters.contains(name) => {
                text.extend(["# ", word, " ", name, "_total", rest]);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// The parts of `# HELP name rest` and `# TYPE name rest`.
fn described(line: &str) -> Option<(&str, &str, &str)> {
    let line = line.strip_prefix("# ")?;
    let (word, line) = line.split_once(' ')?;
    let end = line.find(' ').unwrap_or(line.len());
    matches!(word, "HELP" | "TYPE").then_some((word, &line[..end], &line[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "\
# HELP calls Calls made.
# TYPE calls counter
calls_total{code=\"200\"} 3
# HELP open Open.
# TYPE open gauge
open 1.0
# EOF
";

    #[test]
    fn who_asks_for_nothing_special_gets_the_plain_format() {
        let (kind, text) = answer(&HeaderMap::new(), METRICS.to_owned());
        assert_eq!(kind, TEXT);
        assert_eq!(
            text,
            "# HELP calls_total Calls made.\n# TYPE calls_total counter\ncalls_total{code=\"200\"} 3\n# HELP open Open.\n\
             # TYPE open gauge\nopen 1.0\n"
        );
    }

    #[test]
    fn prometheus_gets_what_it_asks_for() {
        let mut headers = HeaderMap::new();
        let accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.3";
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        let (kind, text) = answer(&headers, METRICS.to_owned());
        assert_eq!((kind, text.as_str()), (OPEN_METRICS, METRICS));
    }
}
