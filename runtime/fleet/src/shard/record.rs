//! Reads and writes the Leases of a sharding. Entry points: [`Listing::parse`], [`LeaseObject::body`].

use super::assignment::{Assignment, Damage};
use super::{MAX_MEMBER_NAME, MAX_WEIGHT, Sharding};
use crate::election::record::Record;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// The label of all Leases of a sharding. Its value is the sharding's name. No election takes such a Lease.
pub const LABEL: &str = crate::election::record::SHARDING;

/// The annotation of a member's Lease: [`MemberState`] as JSON.
pub(crate) const MEMBER: &str = "windlass.dev/member";

/// The annotation of the assignment: [`Assignment`] as JSON.
pub(crate) const ASSIGNMENT: &str = "windlass.dev/assignment";

/// What a member says about itself in its Lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberState {
    /// The stable name.
    pub(crate) name: Arc<str>,
    /// Its part of the shards, in proportion.
    pub(crate) weight: u8,
    /// It leaves, and takes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) draining: bool,
    /// It has not been able to list for a Lease's duration, and so takes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) blind: bool,
    /// The `uid` of the assignment by which it runs keys. It changes only while the member runs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) follows: Option<Arc<str>>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl MemberState {
    /// Reads the annotation. A damaged one may hide any assignment that the member follows.
    fn parse(text: Option<&str>, incarnation: &Arc<str>) -> Self {
        let parsed = text.and_then(|text| serde_json::from_str::<Self>(text).ok());
        let valid = |state: &Self| {
            (1..=MAX_WEIGHT).contains(&state.weight)
                && (1..=MAX_MEMBER_NAME).contains(&state.name.len())
        };
        parsed.filter(valid).unwrap_or_else(|| Self {
            name: incarnation.clone(),
            weight: 1,
            draining: false,
            blind: true,
            follows: Some("unknown".into()),
        })
    }
}

/// A Lease object at the server.
#[derive(Debug, PartialEq)]
pub(crate) struct LeaseObject {
    pub(crate) name: String,
    pub(crate) uid: Arc<str>,
    /// The resourceVersion.
    pub(crate) version: Arc<str>,
    pub(crate) record: Record,
    /// The whole object. An update keeps what others have written.
    object: Value,
}

impl LeaseObject {
    /// Reads the answer to a write. `None`: it is not a Lease.
    pub(crate) fn parse(json: &[u8]) -> Option<Arc<Self>> {
        let object: Value = serde_json::from_slice(json).ok()?;
        (object["kind"] == "Lease").then_some(())?;
        Self::read(object)
    }

    /// Reads an item of a list, which has no `kind`.
    fn read(object: Value) -> Option<Arc<Self>> {
        let text = |field: &str| {
            let text = object["metadata"][field].as_str();
            text.filter(|text| !text.is_empty())
        };
        let (name, uid, version) = (text("name")?, text("uid")?, text("resourceVersion")?);
        Some(Arc::new(Self {
            name: name.to_owned(),
            uid: uid.into(),
            version: version.into(),
            record: Record::read(&object["spec"]),
            object,
        }))
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["annotations"][key].as_str()
    }

    /// The body of an update of `base`, or of a new Lease. The resourceVersion of `base` makes an update fail if the Lease has changed.
    pub(crate) fn body(
        base: Option<&Self>,
        sharding: &Sharding,
        name: &str,
        record: &Record,
        annotation: (&str, String),
    ) -> Vec<u8> {
        let mut object = base.map_or_else(|| json!({}), |base| base.object.clone());
        object["apiVersion"] = json!("coordination.k8s.io/v1");
        object["kind"] = json!("Lease");
        let metadata = object_at(&mut object, "metadata");
        metadata["namespace"] = json!(sharding.namespace);
        metadata["name"] = json!(name);
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("managedFields");
        }
        object_at(metadata, "labels")[LABEL] = json!(sharding.name);
        object_at(metadata, "annotations")[annotation.0] = json!(annotation.1);
        record.write(object_at(&mut object, "spec"));
        object.to_string().into_bytes()
    }
}

/// The object in a field, which is made if there is none.
fn object_at<'a>(value: &'a mut Value, field: &str) -> &'a mut Value {
    let value = &mut value[field];
    if !value.is_object() {
        *value = json!({});
    }
    value
}

/// The Lease of a member.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) incarnation: Arc<str>,
    pub(crate) state: MemberState,
    pub(crate) lease: Arc<LeaseObject>,
}

impl Member {
    /// Reads a member's Lease. `None`: its name and its holder do not fit together, so it is not a member's.
    pub(crate) fn read(lease: Arc<LeaseObject>, sharding: &str) -> Option<Self> {
        let incarnation: Arc<str> = lease.record.holder.as_str().into();
        let suffix = lease.name.strip_prefix(sharding)?.strip_prefix('-')?;
        (!incarnation.is_empty() && *suffix == *incarnation).then(|| Self {
            state: MemberState::parse(lease.annotation(MEMBER), &incarnation),
            incarnation,
            lease,
        })
    }
}

/// The assignment at the server.
#[derive(Debug, Clone)]
pub(crate) struct Assigned {
    pub(crate) lease: Arc<LeaseObject>,
    pub(crate) assignment: Result<Assignment, Damage>,
}

impl Assigned {
    pub(crate) fn read(lease: Arc<LeaseObject>) -> Self {
        let text = lease.annotation(ASSIGNMENT).ok_or(Damage::Missing);
        Self {
            assignment: text.and_then(Assignment::parse),
            lease,
        }
    }
}

/// The name of the member whose Lease this is, as a server answers it. `None`: it is no member's.
#[must_use]
pub fn member_of(lease: &[u8], sharding: &str) -> Option<Arc<str>> {
    let lease = LeaseObject::read(serde_json::from_slice(lease).ok()?)?;
    // Without what a member says of itself, nobody knows its name.
    lease.annotation(MEMBER)?;
    Member::read(lease, sharding).map(|member| member.state.name)
}

/// All Leases of a sharding at one instant of the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listing {
    pub(crate) members: Vec<Member>,
    pub(crate) assignment: Option<Assigned>,
    /// The name of a Lease that has the label and is neither a member's nor the assignment.
    pub(crate) foreign: Option<String>,
}

impl Listing {
    /// Parses an answer. `None`: it is not a list of Leases.
    pub(crate) fn parse(json: &[u8], sharding: &str) -> Option<Self> {
        let mut list: Value = serde_json::from_slice(json).ok()?;
        (list["kind"] == "LeaseList").then_some(())?;
        let mut listing = Self::default();
        // A list of no items may say `null`.
        let Value::Array(items) = list["items"].take() else {
            return Some(listing);
        };
        for item in items {
            listing.add(LeaseObject::read(item)?, sharding);
        }
        Some(listing)
    }

    pub(crate) fn add(&mut self, lease: Arc<LeaseObject>, sharding: &str) {
        if lease.name == sharding {
            self.assignment = Some(Assigned::read(lease));
        } else if let Some(member) = Member::read(lease.clone(), sharding) {
            self.members.push(member);
        } else {
            self.foreign = Some(lease.name.clone());
        }
    }

    /// The Lease of an incarnation.
    pub(crate) fn lease(&self, incarnation: &str) -> Option<&Arc<LeaseObject>> {
        let mut members = self.members.iter();
        let member = members.find(|member| *member.incarnation == *incarnation);
        member.map(|member| &member.lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::Timing;

    fn sharding() -> Sharding {
        Sharding {
            namespace: "ns".to_owned(),
            name: "fleet".to_owned(),
            member: "w-0".into(),
            weight: 3,
            shards: 8,
            timing: Timing::default(),
        }
    }

    fn state() -> MemberState {
        MemberState {
            name: "w-0".into(),
            weight: 3,
            draining: true,
            blind: false,
            follows: Some("u1".into()),
        }
    }

    /// As a server stores a body.
    fn stored(body: &[u8]) -> Value {
        let mut object: Value = serde_json::from_slice(body).unwrap();
        object["metadata"]["uid"] = json!("u7");
        object["metadata"]["resourceVersion"] = json!("12");
        object
    }

    fn body(base: Option<&LeaseObject>, annotation: (&str, String)) -> Vec<u8> {
        let record = Record::taken(
            "i1",
            &Timing::default(),
            None,
            "2026-01-01T00:00:00Z".parse().unwrap(),
        );
        LeaseObject::body(base, &sharding(), "fleet-i1", &record, annotation)
    }

    fn list(items: &[Value]) -> Option<Listing> {
        let list = json!({"kind": "LeaseList", "items": items});
        Listing::parse(list.to_string().as_bytes(), "fleet")
    }

    #[test]
    fn a_member_round_trips_through_its_lease() {
        let text = serde_json::to_string(&state()).unwrap();
        assert_eq!(
            text,
            r#"{"name":"w-0","weight":3,"draining":true,"follows":"u1"}"#
        );
        let mut object = stored(&body(None, (MEMBER, text)));
        assert_eq!(object["metadata"]["labels"][LABEL], "fleet");
        object.as_object_mut().unwrap().remove("kind");
        let listing = list(&[object]).unwrap();
        assert_eq!(listing.members[0].state, state());
        assert_eq!(listing.lease("i1").unwrap().record.seconds, Some(15));
        assert!(listing.foreign.is_none() && listing.lease("i2").is_none());
        let lease = listing.members[0].lease.object.to_string();
        let name = |sharding| member_of(lease.as_bytes(), sharding);
        assert_eq!(name("fleet").as_deref(), Some("w-0"));
        assert_eq!((name("other"), member_of(b"{}", "fleet")), (None, None));
    }

    #[test]
    fn an_update_keeps_what_others_have_written() {
        let mut object = stored(&body(None, (MEMBER, String::new())));
        object["metadata"]["labels"]["team"] = json!("a");
        object["metadata"]["annotations"]["note"] = json!("b");
        object["metadata"]["managedFields"] = json!([{}]);
        object["spec"]["strategy"] = json!("c");
        let base = LeaseObject::read(object).unwrap();
        let body = body(Some(&base), (MEMBER, "new".to_owned()));
        let update: Value = serde_json::from_slice(&body).unwrap();
        let metadata = &update["metadata"];
        assert_eq!(metadata["resourceVersion"], "12");
        assert_eq!(
            (
                &metadata["labels"]["team"],
                &metadata["annotations"]["note"]
            ),
            (&json!("a"), &json!("b"))
        );
        assert_eq!(
            (
                &metadata["annotations"][MEMBER],
                &update["spec"]["strategy"]
            ),
            (&json!("new"), &json!("c"))
        );
        assert!(metadata.get("managedFields").is_none());
    }

    #[test]
    fn a_damaged_member_is_alive_takes_nothing_and_may_follow_anything() {
        for text in [
            "",
            "{}",
            r#"{"name":"","weight":1}"#,
            r#"{"name":"a","weight":0}"#,
            r#"{"name":"a","weight":101}"#,
        ] {
            let object = stored(&body(None, (MEMBER, text.to_owned())));
            let state = list(&[object]).unwrap().members[0].state.clone();
            assert!(
                state.blind && state.follows.is_some() && *state.name == *"i1",
                "{text}"
            );
        }
    }

    #[test]
    fn a_foreign_lease_is_reported_and_a_damaged_assignment_kept_apart() {
        let mut other = stored(&body(None, (MEMBER, String::new())));
        other["metadata"]["name"] = json!("fleet-i2");
        let mut assignment = other.clone();
        assignment["metadata"]["name"] = json!("fleet");
        let listing = list(&[other.clone(), assignment.clone()]).unwrap();
        assert_eq!(listing.foreign.as_deref(), Some("fleet-i2"));
        assert_eq!(listing.assignment.unwrap().assignment, Err(Damage::Missing));
        assignment["metadata"]["annotations"][ASSIGNMENT] = json!(Assignment::new(8).text());
        let assigned = list(&[assignment]).unwrap().assignment.unwrap();
        assert_eq!(assigned.assignment, Ok(Assignment::new(8)));
        other["metadata"]["uid"] = json!(3);
        assert!(list(&[other]).is_none());
    }

    #[test]
    fn an_answer_that_is_no_list_of_leases_is_refused() {
        for text in [
            "",
            "null",
            r#"{"kind":"Status"}"#,
            r#"{"kind":"LeaseList","items":[1]}"#,
        ] {
            assert!(Listing::parse(text.as_bytes(), "fleet").is_none(), "{text}");
        }
        let empty = br#"{"kind":"LeaseList","items":null}"#;
        assert!(Listing::parse(empty, "fleet").unwrap().members.is_empty());
        assert!(LeaseObject::parse(br#"{"kind":"Status"}"#).is_none());
    }
}
