//! Whether the watches, the indexes and the primary kind of a controller fit together. Entry point: [`check_shape`].

use crate::kind::GroupVersionKind;
use crate::source::{EnqueueRule, Index};

/// Why watches, indexes and the primary kind do not fit together. A watch is named by its position and kind, as `watch 2 (v1/Secret)`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// There is no watch.
    #[error("there is no watch, so the reconciler would never run: add a watch")]
    NoWatches,
    /// Two watches enqueue the object itself.
    #[error(
        "both {first} and {second} enqueue the object itself: let one enqueue by owner, name, index or mapper"
    )]
    TwoPrimaries {
        /// The first watch.
        first: String,
        /// The second watch.
        second: String,
    },
    /// A watch enqueues the object itself, and its kind is not the primary kind.
    #[error(
        "{watch} enqueues the object itself, but the primary kind is {primary}: make them the same"
    )]
    OtherPrimary {
        /// The watch.
        watch: String,
        /// The primary kind, or `not declared`.
        primary: String,
    },
    /// The enqueue rule of a watch needs a primary kind.
    #[error("{watch} enqueues by {rule}, which needs a primary kind: declare it")]
    NeedsPrimary {
        /// The watch.
        watch: String,
        /// Its enqueue rule.
        rule: &'static str,
    },
    /// A watch enqueues by an index that the primary kind does not have.
    #[error(
        "{watch} enqueues by the index {index:?}, which is not declared on the primary kind: declare it"
    )]
    UnknownIndex {
        /// The watch.
        watch: String,
        /// The index.
        index: String,
    },
    /// Two different indexes of one kind have one name.
    #[error("the index {index:?} of {kind} is declared twice with different paths: rename one")]
    DuplicateIndex {
        /// The kind.
        kind: GroupVersionKind,
        /// The index.
        index: String,
    },
}

/// Checks that a controller with these watches and indexes, whose requests name objects of `primary`, can run.
///
/// # Errors
/// [`ShapeError`].
pub fn check_shape(
    primary: Option<&GroupVersionKind>,
    watches: &[(&GroupVersionKind, EnqueueRule)],
    indexes: &[Index],
) -> Result<(), ShapeError> {
    if watches.is_empty() {
        return Err(ShapeError::NoWatches);
    }
    let named = || {
        (1..)
            .zip(watches)
            .map(|(at, watch)| (name(at, watch.0), watch))
    };
    let mut primaries = named().filter(|(_, watch)| watch.1 == EnqueueRule::Primary);
    if let (Some((first, _)), Some((second, _))) = (primaries.next(), primaries.next()) {
        return Err(ShapeError::TwoPrimaries { first, second });
    }
    check_indexes(indexes)?;
    for (watch, (kind, rule)) in named() {
        check_watch(watch, kind, rule, primary, indexes)?;
    }
    Ok(())
}

fn name(at: usize, kind: &GroupVersionKind) -> String {
    format!("watch {at} ({kind})")
}

fn check_indexes(indexes: &[Index]) -> Result<(), ShapeError> {
    for (at, index) in indexes.iter().enumerate() {
        let clashes =
            |other: &Index| other.kind == index.kind && other.name == index.name && other != index;
        if indexes[..at].iter().any(clashes) {
            return Err(ShapeError::DuplicateIndex {
                kind: index.kind.clone(),
                index: index.name.clone(),
            });
        }
    }
    Ok(())
}

fn check_watch(
    watch: String,
    kind: &GroupVersionKind,
    rule: &EnqueueRule,
    primary: Option<&GroupVersionKind>,
    indexes: &[Index],
) -> Result<(), ShapeError> {
    match (rule, primary) {
        (EnqueueRule::Mapped, _) => Ok(()),
        (EnqueueRule::Primary, Some(primary)) if primary == kind => Ok(()),
        (EnqueueRule::Primary, primary) => Err(ShapeError::OtherPrimary {
            watch,
            primary: primary.map_or_else(|| "not declared".to_owned(), ToString::to_string),
        }),
        (rule, None) => Err(ShapeError::NeedsPrimary {
            watch,
            rule: rule.as_str(),
        }),
        (EnqueueRule::ByIndex(name), Some(primary)) => {
            let declares = |index: &Index| index.kind == *primary && index.name == *name;
            if indexes.iter().any(declares) {
                return Ok(());
            }
            Err(ShapeError::UnknownIndex {
                watch,
                index: name.clone(),
            })
        }
        (_, Some(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: &str) -> GroupVersionKind {
        GroupVersionKind::new("", "v1", kind)
    }

    fn check(
        primary: Option<&str>,
        watches: &[(&str, EnqueueRule)],
        indexes: &[Index],
    ) -> Result<(), ShapeError> {
        let kinds: Vec<_> = watches.iter().map(|watch| kind(watch.0)).collect();
        let rules = watches.iter().map(|watch| watch.1.clone());
        let watches: Vec<_> = kinds.iter().zip(rules).collect();
        check_shape(primary.map(kind).as_ref(), &watches, indexes)
    }

    fn refused(primary: Option<&str>, watches: &[(&str, EnqueueRule)]) -> String {
        check(primary, watches, &[]).unwrap_err().to_string()
    }

    #[test]
    fn a_controller_that_could_never_run_is_refused() {
        assert_eq!(check(Some("Pod"), &[], &[]), Err(ShapeError::NoWatches));
        assert_eq!(
            refused(None, &[("Pod", EnqueueRule::ControllerOwner)]),
            "watch 1 (v1/Pod) enqueues by controller-owner, which needs a primary kind: declare it"
        );
        assert!(check(None, &[("Pod", EnqueueRule::Mapped)], &[]).is_ok());
    }

    #[test]
    fn there_is_one_primary_watch_and_it_is_of_the_primary_kind() {
        let [pod, node] = ["Pod", "Node"].map(|kind| (kind, EnqueueRule::Primary));
        assert!(check(Some("Pod"), std::slice::from_ref(&pod), &[]).is_ok());
        assert!(
            refused(Some("Pod"), &[pod, node.clone()])
                .starts_with("both watch 1 (v1/Pod) and watch 2 (v1/Node)")
        );
        assert!(refused(Some("Pod"), std::slice::from_ref(&node)).contains("is v1/Pod: make"));
        assert!(refused(None, &[node]).contains("is not declared: make"));
    }

    #[test]
    fn an_index_rule_needs_its_index_on_the_primary_kind() {
        let watches = [("Secret", EnqueueRule::ByIndex("refs".into()))];
        let index = |of: &str, path: &str| Index {
            kind: kind(of),
            name: "refs".into(),
            path: path.parse().unwrap(),
            namespace_path: None,
        };
        let check = |indexes: &[Index]| check(Some("Pod"), &watches, indexes);
        let [spec, other] = ["spec.ref", "spec.other"].map(|path| index("Pod", path));
        assert!(matches!(
            check(&[index("Node", "spec.ref")]),
            Err(ShapeError::UnknownIndex { .. })
        ));
        assert!(check(&[spec.clone(), spec.clone()]).is_ok());
        assert!(matches!(
            check(&[spec, other]),
            Err(ShapeError::DuplicateIndex { .. })
        ));
    }
}
