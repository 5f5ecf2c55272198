//! Guests that no compiler makes: what they do as they start, in the middle of a host call, and with instructions that languages
//! do not offer.

use crate::fixture::{Stage, config_map};
use crate::mutate::{
    LOOP, Mutation, TRAP, filling_memory, growing_table, sparse, texts, unsigned, unwinding,
};
use crate::neighbour::{beside_a_neighbour, well_beside_a_neighbour};
use anyhow::{Context, Result};
use serde_json::json;
use std::time::{Duration, Instant};
use windlass_fleet::Action;
use windlass_fleet::outcome::Blame;
use windlass_harness::eventually::{DEADLINE, Seen, wait};
use windlass_harness::guests::guest;

/// Type of a function without parameters and results.
const ACTION: &[u8] = &[0x60, 0, 0];
/// Type of `cabi_realloc`.
const REALLOC: &[u8] = &[0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f];

fn mutation(of: &str) -> Result<Mutation> {
    Mutation::of(&std::fs::read(guest(of))?)
}

/// A guest that does something as it starts, before anybody calls it.
fn starting(body: &[u8]) -> Result<Vec<u8>> {
    let mut mutation = mutation("hello")?;
    let start = mutation.add(ACTION, body)?;
    mutation.start(start);
    Ok(mutation.finish())
}

/// Why a guest does not load.
async fn refusal(name: &str, component: Vec<u8>) -> Result<String> {
    let stage = Stage::start(&[]).await?;
    let begun = Instant::now();
    let refused = stage.mutated(name, component).load().await?;
    assert!(begun.elapsed() < DEADLINE, "took {:?}", begun.elapsed());
    Ok(refused.err().context("it is refused")?.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_never_gets_through_its_start_is_refused() -> Result<()> {
    let refused = refusal("loops-at-start", starting(LOOP)?).await?;
    assert!(
        refused.starts_with("the guest's describe() failed: no answer within 500ms"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_traps_as_it_starts_is_refused() -> Result<()> {
    let refused = refusal("traps-at-start", starting(TRAP)?).await?;
    assert!(
        refused.starts_with("the guest's describe() failed: the guest trapped: ")
            && refused.contains("unreachable"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_starts_with_too_large_a_table_is_refused() -> Result<()> {
    let mut mutation = mutation("hello")?;
    mutation.add_table(70_000)?;
    let refused = refusal("large-table", mutation.finish()).await?;
    assert!(refused.contains("table"), "{refused}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_no_guest_may_have_is_the_guests_fault() -> Result<()> {
    let mut mutation = mutation("hello")?;
    mutation.add_table(10_000_000)?;
    let stage = Stage::start(&[]).await?;
    let refused = stage
        .mutated("huge-table", mutation.finish())
        .load()
        .await?;
    let refused = refused.err().context("it is refused")?;
    assert!(!refused.is_of_the_host(), "{refused}");
    let refused = refused.to_string();
    assert!(
        refused.contains("asks for more than any guest is given") && refused.contains("10000000"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_a_component_neither_forge_a_line_nor_drive_a_terminal() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let mut mutation = mutation("test-loop")?;
    let spin = mutation.function("test_loop4spin")?;
    mutation.replace(spin, TRAP)?;
    mutation.rename(spin, "spin\u{1b}[2J\ntenant=good\u{202e}\u{2028}")?;
    let hostile = stage.mutated("hostile-names", mutation.finish());
    let failure = beside_a_neighbour(&stage, hostile).await?;
    assert!(
        failure
            .message
            .contains("in spin\\u{1b}[2J tenant=good\\u{202e}\\u{2028}"),
        "{failure}"
    );
    assert!(
        !failure
            .message
            .contains(|c: char| c.is_control() || c == '\u{202e}' || c == '\u{2028}'),
        "{failure}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_grows_to_its_limit_and_no_further() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let growing = stage.mutated(
        "growing-table",
        growing_table(&std::fs::read(guest("test-loop"))?)?,
    );
    let failure = beside_a_neighbour(&stage, growing).await?;
    assert_eq!((failure.reason, failure.blame), ("memory", Blame::Guest));
    assert!(
        failure.message.contains("60000 table elements")
            && failure.message.contains(", in test_loop::spin"),
        "{failure}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_fills_its_memory_again_and_again_is_interrupted() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let filling = filling_memory(&std::fs::read(guest("test-loop"))?)?;
    let filling = stage
        .mutated("filling-memory", filling)
        .limits(|limits| limits.timeout = Duration::from_secs(1));
    let failure = beside_a_neighbour(&stage, filling).await?;
    assert_eq!((failure.reason, failure.blame), ("timeout", Blame::Guest));
    assert!(
        failure.message.contains(", in test_loop::spin"),
        "{failure}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_begins_with_much_data_is_like_any_other() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let sparse = sparse(&std::fs::read(guest("test-requeue"))?)?;
    let sparse = stage
        .mutated("sparse", sparse)
        .config(json!({"after": 60_000}));
    let action = well_beside_a_neighbour(&stage, sparse).await?;
    assert_eq!(action, Action::RequeueAfter(Duration::from_secs(60)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_computes_on_its_way_back_from_many_calls_is_interrupted() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let unwinding = unwinding(&std::fs::read(guest("test-loop"))?)?;
    let unwinding = stage
        .mutated("unwinding", unwinding)
        .limits(|limits| limits.timeout = Duration::from_secs(1));
    let failure = beside_a_neighbour(&stage, unwinding).await?;
    assert_eq!((failure.reason, failure.blame), ("timeout", Blame::Guest));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_whose_components_hand_each_other_long_texts_is_like_any_other() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let texts = texts(&std::fs::read(guest("test-requeue"))?)?;
    let texts = stage
        .mutated("texts", texts)
        .config(json!({"after": 60_000}));
    let action = well_beside_a_neighbour(&stage, texts).await?;
    assert_eq!(action, Action::RequeueAfter(Duration::from_secs(60)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_cannot_be_interrupted_is_counted_and_goes_on() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let texts = texts(&std::fs::read(guest("test-requeue"))?)?;
    let running = stage
        .mutated("stuck", texts)
        .config(json!({"after": 0}))
        .run()
        .await?;
    stage.apply("alpha", config_map("a", json!({})))?;
    // How long such a copy takes is the machine's to say: often enough it is too long.
    wait("its slices to be stuck", || {
        let hits = running.guest.status().limit_hits;
        Seen::of(hits.get("slice").copied(), |stuck| *stuck > Some(3))
    })
    .await?;
    let runs = running.runs();
    wait("it to go on", || {
        Seen::of(running.runs(), |now| *now > runs + 5)
    })
    .await?;
    assert_eq!(running.failures(), Vec::<String>::new());
    Ok(())
}

/// `test-calls` whose allocator does something when the host hands it an object of more than 100 kB.
fn allocating(bad: &[u8]) -> Result<Vec<u8>> {
    allocating_in(mutation("test-calls")?, bad)
}

fn allocating_in(mut mutation: Mutation, bad: &[u8]) -> Result<Vec<u8>> {
    let original = mutation.function("cabi_realloc")?;
    // if size > 100_000 { bad }
    let mut body = [
        &[0x20, 3, 0x41, 0xa0, 0x8d, 0x06, 0x4b, 0x04, 0x40][..],
        bad,
        &[0x0b],
    ]
    .concat();
    // and else what it did
    body.extend([0x20, 0, 0x20, 1, 0x20, 2, 0x20, 3, 0x10]);
    body.extend(unsigned(original));
    let replaced = mutation.add(REALLOC, &body)?;
    mutation.export("cabi_realloc", replaced)?;
    Ok(mutation.finish())
}

/// How a guest fails whose allocator misbehaves while the host hands it an object.
async fn allocator_fails(name: &str, guest: Vec<u8>) -> Result<windlass_fleet::Failure> {
    let stage = Stage::start(&["alpha"]).await?;
    let mut large = config_map("large", json!({"text": "x".repeat(200_000)}));
    large["metadata"]["labels"] = json!({});
    stage.apply("alpha", large)?;
    let step = json!({"do": "get", "kind": ["v1", "ConfigMap"], "key": ["default", "large"]});
    let builder = stage
        .mutated(name, guest)
        .config(json!({"steps": [step]}))
        .limits(|limits| limits.timeout = Duration::from_secs(1));
    let failure = beside_a_neighbour(&stage, builder).await?;
    assert_eq!(failure.blame, Blame::Guest, "{failure}");
    Ok(failure)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocator_that_loops_inside_a_host_call_is_interrupted() -> Result<()> {
    let failure = allocator_fails("allocator-loops", allocating(LOOP)?).await?;
    assert_eq!(failure.reason, "timeout");
    assert!(failure.message.contains("no result within 1s"), "{failure}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocator_that_traps_inside_a_host_call_ends_the_call() -> Result<()> {
    let failure = allocator_fails("allocator-traps", allocating(TRAP)?).await?;
    assert_eq!(failure.reason, "trap");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocator_that_answers_memory_that_is_not_there_ends_the_call() -> Result<()> {
    // return -16
    let failure = allocator_fails("allocator-lies", allocating(&[0x41, 0x70, 0x0f])?).await?;
    assert_eq!(failure.reason, "trap");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocator_that_calls_the_host_inside_a_host_call_ends_the_call() -> Result<()> {
    let mutation = mutation("test-calls")?;
    let now = mutation.function("clock3now11wit_import")?;
    // now(0)
    let call = [&[0x41, 0, 0x10][..], &unsigned(now)].concat();
    let failure = allocator_fails("allocator-calls", allocating_in(mutation, &call)?).await?;
    assert_eq!(failure.reason, "trap");
    assert!(
        failure.message.contains("cannot leave component instance"),
        "{failure}"
    );
    Ok(())
}
