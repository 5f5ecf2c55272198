//! Events that are recorded in the background, and what there is room for. Those of the program stand in `program::notices`.

use super::fixture::{Fleet, client, config_map, key, name, wait};
use anyhow::Result;
use serde_json::{Value, json};
use windlass_fleet::api::{Event, EventType};
use windlass_fleet::cluster::EventRoom;
use windlass_harness::eventually::Seen;

#[tokio::test]
async fn what_controllers_record_leaves_room_for_what_the_program_has_to_say() -> Result<()> {
    /// More than wait to be written of what controllers record.
    const MANY: u64 = 1000;
    let fleet = Fleet::start(&["alpha"], |b| b).await?;
    let server = fleet.server("alpha");
    server.down(true);
    fleet.provider.put(fleet.spec("alpha")?);
    let cluster = wait("a cluster", || {
        let cluster = fleet.handle.fleet().cluster(&name("alpha"));
        cluster.map_or_else(|| Seen::NotYet("not engaged".into()), Seen::Yes)
    })
    .await?;
    let event = |reason: &str| Event {
        kind: config_map(),
        key: key("a"),
        event_type: EventType::Warning,
        reason: reason.to_owned(),
        action: "Test".into(),
        note: "from a test".into(),
    };
    for _ in 0..MANY {
        client(&cluster).record_event(event("Guests"));
    }
    cluster.record_own_event(event("BroughtAbout"), "here", EventRoom::Shared);
    let dropped = cluster.status().events_dropped;
    assert!((1..MANY).contains(&dropped), "{dropped}");
    cluster.record_own_event(event("Own"), "here", EventRoom::Reserved);
    assert_eq!(cluster.status().events_dropped, dropped);

    server.down(false);
    let told = wait("the event", || {
        let events = server.list("v1", "Event", "default").unwrap_or_default();
        let reasons: Vec<Value> = events.iter().map(|event| event["reason"].clone()).collect();
        Seen::of(reasons, |reasons| reasons.contains(&json!("Own")))
    })
    .await?;
    assert!(!told.contains(&json!("BroughtAbout")), "{told:?}");
    fleet.stop().await
}
