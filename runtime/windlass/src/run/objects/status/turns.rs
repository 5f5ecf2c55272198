//! Which statuses a round writes, when more have changed than it may write. Entry point: [`Turns`].

/// Most writes of one round.
pub(super) const MOST: usize = 50;

/// How a status differs from the one that its object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// In numbers alone.
    Numbers,
    /// In its conditions, or in what else people wait for.
    Conditions,
}

/// The place from which the next round looks. So each object has its turn, however many change all the time.
#[derive(Debug, Default)]
pub(super) struct Turns {
    next: usize,
}

impl Turns {
    /// The writes of a round over so many objects: changed conditions first, then changed numbers.
    pub(super) fn take<T>(
        &mut self,
        objects: usize,
        mut differs: impl FnMut(usize) -> Option<(Change, T)>,
    ) -> Vec<T> {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for offset in 0..objects {
            let index = (self.next + offset) % objects;
            match differs(index) {
                Some((Change::Conditions, write)) => first.push((index, write)),
                Some((Change::Numbers, write)) if second.len() < MOST => {
                    second.push((index, write));
                }
                _ => {}
            }
            if first.len() == MOST {
                break;
            }
        }
        second.truncate(MOST - first.len());
        // After the last one whose numbers are written: a condition that changes in each round holds nobody up.
        let last = second.last().or(first.last());
        if let Some((index, _)) = last {
            self.next = index + 1;
        }
        let both = first.into_iter().chain(second);
        both.map(|(_, write)| write).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_has_its_turn_while_the_numbers_of_all_change() {
        let mut turns = Turns::default();
        let mut seen = BTreeSet::new();
        for _ in 0..1000 / MOST {
            let writes = turns.take(1000, |index| Some((Change::Numbers, index)));
            assert_eq!(writes.len(), MOST);
            seen.extend(writes);
        }
        assert_eq!(seen.len(), 1000);
    }

    #[test]
    fn changed_conditions_come_first_and_hold_nobody_up() {
        let mut turns = Turns::default();
        let mut seen = BTreeSet::new();
        for _ in 0..30 {
            let writes = turns.take(1000, |index| match index {
                999 | 3 => Some((Change::Conditions, index)),
                _ => Some((Change::Numbers, index)),
            });
            assert!(writes[..2].contains(&999) && writes[..2].contains(&3));
            assert_eq!(writes.len(), MOST);
            seen.extend(writes);
        }
        assert_eq!(seen.len(), 1000);
    }

    #[test]
    fn each_has_its_turn_while_the_conditions_of_all_change() {
        let mut turns = Turns::default();
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            seen.extend(turns.take(1000, |index| Some((Change::Conditions, index))));
        }
        assert_eq!(seen.len(), 1000);
        // Fewer objects than before, and none.
        assert_eq!(
            turns.take(3, |index| Some((Change::Numbers, index))).len(),
            3
        );
        let none = turns.take(0, |index| Some((Change::Numbers, index)));
        assert!(none.is_empty());
    }
}
