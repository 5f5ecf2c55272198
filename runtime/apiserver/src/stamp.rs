//! What a server makes up for new objects and notes on old ones: [`uid`], [`name`], and times, [`now`] and [`later`].

use jiff::{SignedDuration, Timestamp};

pub(crate) fn uid() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// A name that begins with `prefix`, cut to fit, and ends with five characters that cannot form words.
pub(crate) fn name(prefix: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let suffix = uuid::Uuid::new_v4()
        .into_bytes()
        .into_iter()
        .take(5)
        .map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
    prefix.chars().take(58).chain(suffix).collect()
}

pub(crate) fn now() -> String {
    later(0)
}

/// The time `seconds` from now.
pub(crate) fn later(seconds: i64) -> String {
    ahead(SignedDuration::from_secs(seconds))
}

/// The time so long from now.
pub(crate) fn ahead(by: SignedDuration) -> String {
    let at = Timestamp::now().checked_add(by);
    text(at.unwrap_or(Timestamp::MAX))
}

/// RFC 3339 in whole seconds, as object metadata has it.
fn text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_and_in_order() {
        let (now, later) = (now(), later(60));
        assert_eq!(now.len(), "2026-01-01T00:00:00Z".len());
        assert!(now < later, "{now} {later}");
    }

    #[test]
    fn a_made_up_name_fits_into_a_label() {
        let name = name(&"a".repeat(100));
        assert_eq!(name.len(), 63);
    }
}
