//! Tests of [`super`].

use super::*;
use crate::options::TenantLimits;
use windlass_fleet::{ClusterName, ObjectKey, TenantName};

const SECOND: Duration = Duration::from_secs(1);

fn request(name: &str) -> Request {
    Request::new(ClusterName::local(), ObjectKey::namespaced("shop", name))
}

fn options(failures: usize, sample: usize) -> RecordOptions {
    RecordOptions {
        failures,
        sample,
        ..RecordOptions::default()
    }
}

/// A recording of a key, whose file has so many bytes of the tenant.
fn kept(tenant: &Arc<Tenant>, why: Why, name: &str, bytes: usize) -> KeptRecording {
    KeptRecording {
        id: name.to_owned(),
        why,
        time: String::new(),
        request: request(name),
        outcome: Outcome::Done,
        calls: 0,
        file: Ok(Bytes::new()),
        _charge: Charge::new(tenant, bytes),
    }
}

fn names(recordings: &Recordings) -> Vec<String> {
    recordings.list().into_iter().map(|kept| kept.id).collect()
}

fn tenant(memory: usize) -> Arc<Tenant> {
    let limits = TenantLimits {
        memory,
        ..TenantLimits::default()
    };
    Tenant::new(TenantName::default(), &limits)
}

#[test]
fn one_recording_of_a_key_is_kept_and_as_many_as_the_options_say() {
    let (tenant, recordings) = (tenant(1 << 20), Recordings::default());
    recordings.follow(Some(options(2, 0)));
    for name in ["a", "b", "b", "b"] {
        recordings.keep(kept(&tenant, Why::Failure, name, 1));
    }
    assert_eq!(names(&recordings), ["a", "b"]);
    recordings.keep(kept(&tenant, Why::Failure, "c", 1));
    assert_eq!(names(&recordings), ["b", "c"]);
    let without_file = KeptRecording {
        file: Err("it is too large".to_owned()),
        ..kept(&tenant, Why::Asked, "c", 0)
    };
    recordings.keep(kept(&tenant, Why::Asked, "c", 1));
    recordings.keep(without_file);
    let with_file = recordings
        .list()
        .into_iter()
        .filter(|kept| kept.file.is_ok());
    assert_eq!(with_file.count(), 3, "a run without a file replaces none");
    recordings.follow(None);
    assert_eq!(
        names(&recordings),
        ["c", "c"],
        "those that somebody asked for stay"
    );
}

#[test]
fn a_guest_that_needs_memory_gets_that_of_recordings() {
    let (tenant, recordings) = (tenant(1000), Arc::new(Recordings::default()));
    recordings.follow(Some(options(5, 5)));
    tenant.may_drop(&recordings);
    recordings.keep(kept(&tenant, Why::Failure, "failure", 400));
    recordings.keep(kept(&tenant, Why::Sample, "sample", 350));
    assert!(Charge::new(&tenant, 1).is_none(), "a quarter is for guests");
    assert!(tenant.charge(500));
    assert_eq!(names(&recordings), ["failure"], "the sample goes first");
    assert!(!tenant.charge(1000) && names(&recordings).is_empty());
    tenant.release(500);
    assert_eq!(tenant.memory_used(), 0);
}

#[test]
fn failures_are_written_as_many_at_once_as_are_kept_and_then_one_a_second() {
    let (mut state, start) = (State::default(), Instant::now());
    let options = options(3, 0);
    let mut written = |now| state.why(&options, true, now).is_some();
    let at_once = (0..10).filter(|_| written(start)).count();
    assert_eq!(at_once, 3);
    assert!(!written(start + SECOND / 2) && written(start + 2 * SECOND));
}

#[test]
fn a_sample_is_taken_now_and_then() {
    let (mut state, start) = (State::default(), Instant::now());
    let options = options(0, 2);
    let mut why = |failed, now| state.why(&options, failed, now);
    assert_eq!(why(true, start), None, "no failures are asked for");
    assert_eq!(why(false, start), Some(Why::Sample));
    assert_eq!(why(false, start + options.every / 2), None);
    assert_eq!(why(false, start + options.every), Some(Why::Sample));
}

#[test]
fn a_key_waits_for_its_next_run_and_not_for_ever() {
    let (mut state, start) = (State::default(), Instant::now());
    let names: Vec<String> = (0..ASKED).map(|number| number.to_string()).collect();
    assert!(names.iter().all(|name| state.want(request(name), start)));
    assert!(!state.want(request("more"), start));
    assert!(state.take_wanted(&request("0"), start));
    assert!(!state.take_wanted(&request("0"), start), "one run");
    assert!(!state.take_wanted(&request("1"), start + WAIT));
    assert!(state.wanted.is_empty());
}
