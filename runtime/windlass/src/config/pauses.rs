//! Pauses of reconcilers, tenants, providers and clusters, which are annotations of documents. Entry point: [`Pauses::read`].

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::SystemTime;
use windlass_fleet::ClusterName;
use windlass_fleet::paused::{DELETIONS, Pause, REASON, UNTIL};

/// The annotation of a Provider with pauses of some of its clusters: an object of [`ClusterPause`]s by cluster, as JSON.
pub(crate) const CLUSTERS: &str = "windlass.dev/paused-clusters";

/// The pauses that a document asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pauses {
    /// Of what it describes.
    pub(crate) own: Option<Pause>,
    /// Of clusters of a Provider.
    pub(crate) clusters: BTreeMap<ClusterName, Pause>,
}

/// The pause of a cluster: the values of the annotations of other pauses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterPause {
    until: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deletions: bool,
}

impl ClusterPause {
    /// As it is written.
    pub(crate) fn of(pause: &Pause) -> Self {
        Self {
            until: pause.end.to_string(),
            reason: pause.reason.as_deref().map(str::to_owned),
            deletions: pause.deletions,
        }
    }

    /// Whether nothing is left of it.
    pub(crate) fn has_ended(&self, now: SystemTime) -> bool {
        self.read().is_none_or(|pause| pause.left(now).is_none())
    }

    fn read(&self) -> Option<Pause> {
        Pause::read(|name| match name {
            UNTIL => Some(Cow::Borrowed(self.until.as_str())),
            REASON => self.reason.as_deref().map(Cow::Borrowed),
            DELETIONS => self.deletions.then_some(Cow::Borrowed("true")),
            _ => None,
        })
    }
}

/// The pauses of clusters in an annotation. What cannot be read pauses nothing: there is no cluster that it names.
pub(crate) fn clusters(annotation: &str) -> BTreeMap<String, ClusterPause> {
    serde_json::from_str(annotation).unwrap_or_default()
}

impl Pauses {
    /// The pauses of annotations.
    pub(crate) fn read<'a>(annotation: impl Fn(&str) -> Option<Cow<'a, str>>) -> Self {
        let named = annotation(CLUSTERS).map(|text| clusters(&text));
        let named = named
            .into_iter()
            .flatten()
            .filter_map(|(name, pause)| Some((ClusterName::new(&name).ok()?, pause.read()?)));
        Self {
            clusters: named.collect(),
            own: Pause::read(annotation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fleet::paused::End;

    #[test]
    fn pauses_of_clusters_are_read_as_they_are_written_and_others_pause_nothing() {
        let pause = Pause {
            end: End::Resumed,
            reason: Some("a freeze".into()),
            deletions: true,
        };
        let written: BTreeMap<_, _> = [("alpha", ClusterPause::of(&pause))].into();
        let text = serde_json::to_string(&written).unwrap();
        let read = |text: &str| {
            Pauses::read(|name| (name == CLUSTERS).then(|| Cow::Owned(text.to_owned())))
        };
        let alpha = ClusterName::new("alpha").unwrap();
        assert_eq!(read(&text).clusters, [(alpha, pause)].into());
        assert_eq!(read(&text).own, None);
        for wrong in ["", "alpha", "[]", "{\"alpha\": 1}"] {
            assert_eq!(read(wrong), Pauses::default(), "{wrong}");
        }
    }
}
