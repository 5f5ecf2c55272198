//! How much of a limit watches may take. Entry points: [`four_fifths`] and [`capacity`].

use super::Purpose;

/// The part of a limit that watches may take. A connection with more streams in use than this counts as almost full.
pub(in crate::http::transport) fn four_fifths(limit: usize) -> usize {
    (limit - limit / 5).max(1)
}

/// Whether a connection may carry one more stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capacity {
    Free,
    /// Only the part that watches never take is left: use it if no other connection is free.
    AlmostFull,
    Full,
}

pub(super) fn capacity(limit: usize, taken: usize, purpose: Purpose) -> Capacity {
    if taken < four_fifths(limit) && taken < limit {
        Capacity::Free
    } else if taken < limit && purpose == Purpose::Call {
        Capacity::AlmostFull
    } else {
        Capacity::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_leave_the_last_fifth_of_a_connection_to_calls() {
        let of_hundred = |taken, purpose| capacity(100, taken, purpose);
        assert_eq!(of_hundred(79, Purpose::Watch), Capacity::Free);
        assert_eq!(of_hundred(80, Purpose::Watch), Capacity::Full);
        assert_eq!(of_hundred(80, Purpose::Call), Capacity::AlmostFull);
        assert_eq!(of_hundred(100, Purpose::Call), Capacity::Full);
    }

    #[test]
    fn a_server_that_allows_one_stream_gets_a_connection_for_each() {
        assert_eq!(capacity(1, 0, Purpose::Watch), Capacity::Free);
        assert_eq!(capacity(1, 1, Purpose::Call), Capacity::Full);
        assert_eq!(capacity(0, 0, Purpose::Call), Capacity::Full);
    }
}
