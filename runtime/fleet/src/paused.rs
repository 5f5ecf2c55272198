//! Pauses: an operator has asked that keys do not run for a while. Entry points: [`Pause::read`] and `decide`.
//!
//! A pause is an annotation on an object: on a reconciler's primary object it holds the object's key, in every reconciler. The program has
//! pauses of whole reconcilers, tenants and clusters besides.
//!
//! Invariants:
//! * An object that is being deleted, or is not there any more, runs in spite of a pause, unless the pause holds deletions too.
//! * A pause whose end cannot be read pauses until it is corrected: its author meant to pause.
//! * The end of a pause is a time of the wall clock, so that it is the same in every process. A key that waits for it looks again after
//!   `RECHECK`, because that clock can be set.

use crate::json::Object;
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The annotation that pauses: a time as in RFC 3339, or [`RESUMED`].
pub const UNTIL: &str = "windlass.dev/paused-until";
/// The annotation with the reason, for people.
pub const REASON: &str = "windlass.dev/pause-reason";
/// The annotation that holds deletions too: `true`.
pub const DELETIONS: &str = "windlass.dev/pause-deletions";
/// The value of [`UNTIL`] without an end: paused until resumed.
pub const RESUMED: &str = "resumed";

/// The longest time that a paused key waits before it looks at its pause again.
pub(crate) const RECHECK: Duration = Duration::from_secs(600);
/// Most bytes of a reason, or of an end that cannot be read, that are shown.
const MAX_TEXT: usize = 256;

/// A pause, as it was asked for. It may have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// When it ends.
    pub end: End,
    /// Why, for people.
    pub reason: Option<Arc<str>>,
    /// Whether objects that are being deleted wait too.
    pub deletions: bool,
}

/// When a pause ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// At this time.
    At(Timestamp),
    /// When somebody resumes.
    Resumed,
    /// When somebody corrects this text, which is no time.
    Unreadable(Arc<str>),
}

impl Pause {
    /// The pause of annotations, if they ask for one.
    pub fn read<'a>(annotation: impl Fn(&str) -> Option<Cow<'a, str>>) -> Option<Self> {
        let end = End::read(&annotation(UNTIL)?);
        let reason = annotation(REASON).filter(|reason| !reason.is_empty());
        Some(Self {
            end,
            reason: reason.map(|reason| cut(&reason)),
            deletions: annotation(DELETIONS).is_some_and(|value| value == "true"),
        })
    }

    /// The pause that an object asks for.
    pub(crate) fn of(object: &Object) -> Option<Self> {
        let annotations = object.annotations();
        Self::read(|name| annotations.get(name))
    }

    /// The merge patch that gives an object this pause, or takes it away with `None`.
    #[must_use]
    pub fn patch(pause: Option<&Self>) -> Value {
        let until = pause.map(|pause| pause.end.to_string());
        let reason = pause.and_then(|pause| pause.reason.as_deref());
        let deletions = pause.and_then(|pause| pause.deletions.then_some("true"));
        json!({"metadata": {"annotations": {UNTIL: until, REASON: reason, DELETIONS: deletions}}})
    }

    /// How long it goes on. `None`: it has ended. The longest time: nobody knows.
    #[must_use]
    pub fn left(&self, now: SystemTime) -> Option<Duration> {
        let End::At(end) = self.end else {
            return Some(Duration::MAX);
        };
        let left = SystemTime::from(end).duration_since(now).ok()?;
        (!left.is_zero()).then_some(left)
    }
}

impl End {
    /// A time, to the second. One that no calendar has is no end.
    #[must_use]
    pub fn at(time: SystemTime) -> Self {
        let time = Timestamp::try_from(time).and_then(|time| time.round(Unit::Second));
        time.map_or(Self::Resumed, Self::At)
    }

    /// What the annotation says.
    fn read(text: &str) -> Self {
        match text.parse() {
            Ok(time) => Self::At(time),
            Err(_) if text == RESUMED => Self::Resumed,
            Err(_) => Self::Unreadable(cut(text)),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(time) => time.fmt(f),
            Self::Resumed => f.write_str(RESUMED),
            Self::Unreadable(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            End::At(time) => write!(f, "paused until {time}")?,
            End::Resumed => f.write_str("paused until resumed")?,
            End::Unreadable(text) => write!(
                f,
                "paused until {text:?} is corrected, which is neither a time nor `{RESUMED}`"
            )?,
        }
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// The scope of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseOf {
    /// The object of the key.
    Object,
    /// The controller.
    Reconciler,
    /// The tenant.
    Tenant,
    /// The cluster.
    Cluster,
    /// The provider of the cluster.
    Provider,
}

impl PauseOf {
    /// The word in texts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Reconciler => "reconciler",
            Self::Tenant => "tenant",
            Self::Cluster => "cluster",
            Self::Provider => "cluster's provider",
        }
    }
}

/// A time of the wall clock, for ends that objects name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WallTime(SystemTime);

impl WallTime {
    /// The time after a duration from now.
    pub(crate) fn after(ahead: Duration) -> Self {
        Self(SystemTime::now() + ahead)
    }
}

/// How a key's object is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is there, or its controller does not watch its own objects and cannot know.
    Here,
    /// It is being deleted, or gone.
    Leaving,
}

/// A pause that holds a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paused {
    /// The pause.
    pub pause: Pause,
    /// What it is of.
    pub of: PauseOf,
    /// How long it goes on; the longest time if nobody knows.
    pub left: Duration,
}

impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            PauseOf::Object => write!(f, "it is {}", self.pause),
            of => write!(f, "its {} is {}", of.as_str(), self.pause),
        }
    }
}

/// The pause that holds a key longest, of all that are about it. `None`: the key runs.
pub(crate) fn decide(
    standing: Standing,
    pauses: impl IntoIterator<Item = (PauseOf, Pause)>,
    now: WallTime,
) -> Option<Paused> {
    let held = pauses.into_iter().filter_map(|(of, pause)| {
        let left = pause.left(now.0)?;
        let holds = pause.deletions || standing == Standing::Here;
        holds.then_some(Paused { pause, of, left })
    });
    // Of several without an end, the one of the object, which its owner sees.
    held.max_by_key(|held| (held.left, std::cmp::Reverse(held.of)))
}

fn cut(text: &str) -> Arc<str> {
    text[..text.floor_char_boundary(MAX_TEXT)].into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn time(text: &str) -> SystemTime {
        text.parse::<Timestamp>().unwrap().into()
    }

    fn pause(annotations: Value) -> Option<Pause> {
        let object = json!({"metadata": {"name": "a", "annotations": annotations}});
        Pause::of(&Object::parse(Bytes::from(object.to_string())).unwrap())
    }

    /// The annotations of an object that is paused, after the patch.
    fn written(pause: Option<&Pause>) -> Value {
        let mut annotations =
            json!({UNTIL: "before", REASON: "before", DELETIONS: "true", "of": "another"});
        let patch = Pause::patch(pause);
        let patch = patch["metadata"]["annotations"].as_object().unwrap();
        let object = annotations.as_object_mut().unwrap();
        object.extend(patch.clone());
        object.retain(|_, value| !value.is_null());
        annotations
    }

    fn until(end: &str) -> Pause {
        pause(json!({UNTIL: end})).unwrap()
    }

    #[test]
    fn a_pause_is_read_from_annotations_as_it_is_written() {
        assert_eq!(pause(json!({REASON: "why", DELETIONS: "true"})), None);
        for (end, deletions) in [("2026-01-01T13:00:00Z", true), (RESUMED, false)] {
            let value = if deletions { "true" } else { "no" };
            let read = pause(json!({UNTIL: end, REASON: "x", DELETIONS: value})).unwrap();
            assert_eq!(read.end.to_string(), end);
            assert_eq!(
                (read.reason.as_deref(), read.deletions),
                (Some("x"), deletions)
            );
            assert_eq!(pause(written(Some(&read))), Some(read));
        }
        let long = until(&"é".repeat(MAX_TEXT));
        assert!(long.end.to_string().len() <= MAX_TEXT);
        let keeps = json!({"of": "another"});
        assert_eq!(written(None), keeps);
    }

    #[test]
    fn a_pause_ends_at_its_time_and_one_that_cannot_be_read_does_not() {
        let (before, at) = (until("2026-01-01T12:00:01Z"), until(NOW));
        assert_eq!(before.left(time(NOW)), Some(Duration::from_secs(1)));
        assert_eq!(End::at(time(NOW)), at.end);
        let never = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(End::at(never), End::Resumed);
        assert_eq!(at.left(time(NOW)), None);
        // The same time, with another offset.
        assert_eq!(until("2026-01-01T13:00:00+01:00").left(time(NOW)), None);
        for endless in [RESUMED, "tomorrow", "", "2026-01-01"] {
            assert_eq!(until(endless).left(time(NOW)), Some(Duration::MAX));
        }
    }

    #[test]
    fn the_longest_pause_holds_a_key_and_deletions_run_unless_they_are_held_too() {
        let of = |of, end, deletions| {
            let pause = Pause {
                deletions,
                ..until(end)
            };
            (of, pause)
        };
        let held = |standing, pauses: &[(PauseOf, Pause)]| {
            let held = decide(standing, pauses.iter().cloned(), WallTime(time(NOW)));
            held.map(|held| held.of)
        };
        let short = of(PauseOf::Object, "2026-01-01T12:00:01Z", false);
        let long = of(PauseOf::Tenant, "2026-01-01T12:00:02Z", true);
        let over = of(PauseOf::Cluster, "2026-01-01T11:59:59Z", true);
        let endless = of(PauseOf::Reconciler, RESUMED, false);
        for (standing, pauses, expected) in [
            (Standing::Here, vec![], None),
            (Standing::Here, vec![over.clone()], None),
            (
                Standing::Here,
                vec![short.clone(), over],
                Some(PauseOf::Object),
            ),
            (
                Standing::Here,
                vec![short.clone(), long.clone()],
                Some(PauseOf::Tenant),
            ),
            (
                Standing::Here,
                vec![long.clone(), endless.clone()],
                Some(PauseOf::Reconciler),
            ),
            (Standing::Leaving, vec![short, endless.clone()], None),
            (
                Standing::Leaving,
                vec![long, endless.clone()],
                Some(PauseOf::Tenant),
            ),
            (
                Standing::Here,
                vec![endless, of(PauseOf::Object, "soon", false)],
                Some(PauseOf::Object),
            ),
        ] {
            assert_eq!(held(standing, &pauses), expected, "{pauses:?}");
        }
    }

    #[test]
    fn a_pause_says_its_end_and_its_reason() {
        let said = |end: &str, reason: &str| {
            let annotations = json!({UNTIL: end, REASON: reason});
            pause(annotations).unwrap().to_string()
        };
        assert_eq!(
            said(NOW, "a freeze"),
            format!("paused until {NOW}: a freeze")
        );
        assert_eq!(said(RESUMED, ""), "paused until resumed");
        assert!(said("soon", "").contains("\"soon\" is corrected"));
    }
}
