//! The middle of several rounds, which is what benches report: never the best one. Entry points: [`median`], [`spread`] and [`percentile`].

#![allow(dead_code, reason = "each bench uses the parts it needs")]

/// The value below which a share of all lies; NaN where there is none.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// The middle value.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// The middle value, the smallest and the largest.
pub(crate) fn spread(values: &[f64]) -> (f64, f64, f64) {
    (
        median(values),
        percentile(values, 0.0),
        percentile(values, 1.0),
    )
}
