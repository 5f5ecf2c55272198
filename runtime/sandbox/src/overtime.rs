//! What a guest computes beyond the end of its turns, as it could not be interrupted, without I/O. Entry point: [`Overtime`].

use std::time::{Duration, Instant};

/// What a guest may compute in a second beyond the ticks that its turns should have ended at: so little that others do not notice.
const LET_BE: Duration = Duration::from_millis(1);

/// How long a guest stays on the sideline after it was too much for the last time.
const STAY: Duration = Duration::from_secs(10);

/// What a guest has computed beyond its turns.
#[derive(Debug, Default)]
pub(crate) struct Overtime {
    /// Less by [`LET_BE`] every second.
    beyond: Duration,
    /// When `beyond` was right.
    at: Option<Instant>,
    /// `None`: it never was on the sideline.
    until: Option<Instant>,
}

impl Overtime {
    /// A turn was overtaken, and computed for so long from then on. Returns whether the guest computes on the sideline now.
    pub(crate) fn overtaken(&mut self, computed: Duration, now: Instant) -> bool {
        let passed = self.at.map(|at| now.saturating_duration_since(at));
        let forgiven = passed.unwrap_or_default().as_secs_f64();
        let before = self.beyond.saturating_sub(LET_BE.mul_f64(forgiven));
        self.beyond = (before + computed).min(LET_BE * 2);
        self.at = Some(now);
        if self.beyond > LET_BE {
            self.until = Some(now + STAY);
        }
        self.is_sidelined(now)
    }

    /// Whether the guest computes on the sideline.
    pub(crate) fn is_sidelined(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Duration = Duration::from_micros(300);

    #[test]
    fn what_is_little_and_rare_is_let_be() {
        let (mut overtime, mut now) = (Overtime::default(), Instant::now());
        for _ in 0..1000 {
            assert!(!overtime.overtaken(LITTLE, now));
            now += Duration::from_millis(400);
        }
    }

    #[test]
    fn what_is_much_or_often_sends_it_to_the_sideline_for_a_while() {
        let now = Instant::now();
        let mut much = Overtime::default();
        assert!(much.overtaken(3 * LET_BE, now));
        let mut often = Overtime::default();
        let at = |round: u32| now + LITTLE * round;
        let sent = (0..9).find(|round| often.overtaken(LITTLE, at(*round)));
        assert_eq!(sent, Some(3));
        for overtime in [&much, &often] {
            assert!(overtime.is_sidelined(at(3) + STAY / 2));
            assert!(!overtime.is_sidelined(at(3) + STAY));
        }
    }

    #[test]
    fn it_stays_while_it_goes_on() {
        let (mut overtime, mut now) = (Overtime::default(), Instant::now());
        for _ in 0..100 {
            assert!(overtime.overtaken(2 * LET_BE, now));
            now += STAY / 2;
            assert!(overtime.is_sidelined(now));
        }
    }
}
