//! One Secret or ConfigMap on the other side. Entry point: [`Flow::carry`].

use super::Flow;
use crate::config::{RelatedKind, Side};
use crate::mark::{CLUSTER, NAMESPACE, RELATED, related_digest, set};
use crate::trouble::Trouble;
use serde_json::{Map, Value, json};
use windlass_sdk::prelude::*;

impl Flow<'_> {
    /// Makes the copy of a Secret or ConfigMap, or corrects it.
    pub(super) fn carry(
        &self,
        kind: RelatedKind,
        origin: &Object,
        key: &ObjectKey,
    ) -> Result<(), Trouble> {
        let digest = related_digest(&self.from.name(), kind.name(), &origin.key());
        let there = self.to.of(kind.kind()).get_live(key);
        let there = there.map_err(|error| self.write_error(error, kind))?;
        let Some(there) = there else {
            return self.make(kind, origin, key, &digest);
        };
        if there.label(RELATED) != Some(&*digest) {
            return Err(self.taken(kind, key));
        }
        let content = content(origin);
        if there.0["type"] != origin.0["type"] {
            // The type of a Secret cannot change.
            let deleted = self.to.delete_object(&there);
            deleted.map_err(|error| self.write_error(error, kind))?;
            return self.make(kind, origin, key, &digest);
        }
        let mut next = Object::new(&kind.kind(), key);
        next.0["metadata"] = there.0["metadata"].clone();
        self.mark(&mut next.0["metadata"], &digest);
        let is_same = content == self::content(&there);
        if is_same && next.0["metadata"] == there.0["metadata"] {
            return Ok(());
        }
        fill(&mut next, content);
        let kept = self.to.update(&next);
        kept.map(drop)
            .map_err(|error| self.write_error(error, kind))
    }

    fn make(
        &self,
        kind: RelatedKind,
        origin: &Object,
        key: &ObjectKey,
        digest: &str,
    ) -> Result<(), Trouble> {
        let mut made = Object::new(&kind.kind(), key);
        self.mark(&mut made.0["metadata"], digest);
        if self.side == Side::Service {
            made.0["metadata"]["ownerReferences"] = json!([self.source.owner_reference()]);
        }
        fill(&mut made, content(origin));
        let made = self.to.create(&made);
        made.map(drop)
            .map_err(|error| self.write_error(error, kind))
    }

    fn mark(&self, metadata: &mut Value, digest: &str) {
        let origin = &self.work.origin;
        let user = origin.user();
        set(metadata, "labels", RELATED, digest);
        set(metadata, "labels", &user, "");
        set(metadata, "annotations", &user, &origin.key.name);
        set(metadata, "annotations", CLUSTER, &origin.cluster);
        set(metadata, "annotations", NAMESPACE, origin.namespace());
    }

    fn taken(&self, kind: RelatedKind, key: &ObjectKey) -> Trouble {
        let kind = kind.name();
        let (name, namespace) = (&key.name, key.namespace.as_deref().unwrap_or_default());
        let message = match self.side {
            Side::Consumer => format!(
                "the service has a {kind} {name:?} of its own where yours would go: give yours another name"
            ),
            Side::Service => format!(
                "the {kind} {name:?} in the namespace {namespace:?} is yours and in the way of the one that the service has for you: delete or rename it"
            ),
        };
        Trouble::Taken {
            reason: "RelatedTaken",
            message,
        }
    }
}

/// What a Secret or ConfigMap holds. A copy that cannot change could not follow.
fn content(object: &Object) -> Map<String, Value> {
    let fields = object.0.as_object().into_iter().flatten();
    let held = fields.filter(|(name, value)| {
        let is_own = ["apiVersion", "kind", "metadata", "immutable"].contains(&&***name);
        !is_own && !value.is_null()
    });
    held.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn fill(object: &mut Object, content: Map<String, Value>) {
    if let Some(fields) = object.0.as_object_mut() {
        fields.extend(content);
    }
}
