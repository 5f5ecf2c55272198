//! Tests of [`super`].

use super::*;
use crate::recording::stand_ins::tests::recording;
use crate::recording::{GetOptions, Key, Kind, Mode, Projection, WriteOptions};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory, and how much of it is used.
#[derive(Debug)]
struct Memory {
    all: usize,
    used: AtomicUsize,
}

impl Memory {
    fn of(all: usize) -> Arc<Self> {
        let used = AtomicUsize::new(0);
        Arc::new(Self { all, used })
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl SpareMemory for Memory {
    fn charge(&self, bytes: usize) -> bool {
        let fits = self.used() + bytes <= self.all;
        self.used
            .fetch_add(if fits { bytes } else { 0 }, Ordering::Relaxed);
        fits
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn kind() -> Kind {
    Kind {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
    }
}

fn get(name: &str) -> Asked {
    let operation = Operation::Get {
        kind: kind(),
        key: Key {
            namespace: None,
            name: name.to_owned(),
        },
        options: GetOptions {
            mode: Mode::Cached,
            projection: Projection::Full,
            subresource: None,
        },
    };
    Asked::Do {
        cluster: "alpha".to_owned(),
        operation,
    }
}

fn create(object: &str) -> Asked {
    let operation = Operation::Create {
        kind: kind(),
        object: object.to_owned().into(),
        options: WriteOptions {
            subresource: None,
            dry_run: false,
        },
    };
    Asked::Do {
        cluster: "alpha".to_owned(),
        operation,
    }
}

#[test]
fn a_tape_is_charged_for_all_that_it_holds_and_gives_it_back() {
    let memory = Memory::of(1 << 20);
    let tape = Tape::recording(memory.clone(), 100_000);
    let step = tape.ask(get(&"x".repeat(10_000)));
    tape.note(step, &Some("y".repeat(20_000)));
    let held = memory.used();
    assert!((30_000..32_000).contains(&held), "{held}");
    drop(tape);
    assert_eq!(memory.used(), 0);
}

#[test]
fn a_tape_that_is_full_holds_nothing_more() {
    for (all, most, why) in [
        (1 << 20, 20_000, Full::TooLarge),
        (20_000, 1 << 20, Full::NoMemory),
    ] {
        let memory = Memory::of(all);
        let tape = Tape::recording(memory.clone(), most);
        for _ in 0..10 {
            let step = tape.ask(create(&"x".repeat(3000)));
            tape.note(step, &Some("y".to_owned()));
        }
        assert_eq!(tape.recorded().unwrap_err(), why);
        assert_eq!(memory.used(), 0);
    }
}

/// What a guest gets that makes these calls.
fn played(by: By, recorded: &[(Asked, Answer)], calls: &[Asked]) -> Option<Divergence> {
    let steps = recorded.iter().map(|(asked, answer)| Step::Call {
        asked: Box::new(asked.clone()),
        answer: answer.clone(),
    });
    let tape = Tape::playing(&recording(steps.collect()), by);
    for call in calls {
        match tape.play::<Option<String>>(call) {
            Some(Ok(_)) => {}
            Some(Err(_)) => break,
            None => unreachable!("it plays"),
        }
    }
    tape.played().divergence
}

fn number(divergence: Option<Divergence>) -> Option<usize> {
    match divergence? {
        Divergence::Call { number, .. }
        | Divergence::Missing { number, .. }
        | Divergence::Answer { number, .. } => Some(number),
        Divergence::Outcome { .. } => None,
    }
}

#[test]
fn by_order_every_call_is_the_same() {
    let object = Answer::Object("{}".to_owned().into());
    let recorded = [
        (get("a"), object.clone()),
        (create("{\"b\":1,\"c\":2}"), object),
    ];
    let by_order = |calls: &[Asked]| number(played(By::Order, &recorded, calls));
    assert_eq!(by_order(&[get("a"), create("{\"c\":2,\"b\":1}")]), None);
    assert_eq!(by_order(&[get("b")]), Some(1));
    assert_eq!(by_order(&[get("a"), create("{}")]), Some(2));
    assert_eq!(by_order(&[get("a")]), Some(2), "one is missing");
    let more = [get("a"), create("{\"b\":1,\"c\":2}"), get("a")];
    assert_eq!(by_order(&more), Some(3));
}

#[test]
fn by_content_reads_may_move_and_writes_must_come() {
    let object = Answer::Object("{}".to_owned().into());
    let recorded = [
        (get("a"), object.clone()),
        (get("b"), object.clone()),
        (create("{}"), object),
    ];
    let by_content = |calls: &[Asked]| number(played(By::Content, &recorded, calls));
    assert_eq!(
        by_content(&[get("b"), create("{}"), get("b"), get("b")]),
        None
    );
    assert_eq!(by_content(&[get("a")]), Some(3), "the write is missing");
    assert_eq!(
        by_content(&[create("{}"), create("{}")]),
        Some(2),
        "a write twice"
    );
    assert_eq!(by_content(&[get("c")]), Some(1));
}

#[test]
fn a_run_that_waited_for_an_answer_ends_there_again() {
    let recorded = [(get("a"), Answer::Unanswered)];
    assert_eq!(played(By::Order, &recorded, &[get("a")]), None);
    let edited = [(get("a"), Answer::Batch(Vec::new()))];
    assert_eq!(number(played(By::Order, &edited, &[get("a")])), Some(1));
}
