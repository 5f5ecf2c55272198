//! What cannot be a guest is refused with a sentence that says what to do; what can says what it needs.

use crate::fixture::{Stage, revision, sandbox, without_cache};
use crate::mutate::{component, section};
use anyhow::Result;
use serde_json::json;
use windlass_harness::guests::{guest, names, renamed};
use windlass_sandbox::{LoadError, Source};

async fn load(bytes: Vec<u8>) -> Result<(), LoadError> {
    without_cache()
        .load(Source::Bytes {
            name: "guest.wasm".into(),
            bytes,
        })
        .await
        .map(drop)
}

async fn refusal(bytes: Vec<u8>) -> String {
    load(bytes).await.expect_err("it is refused").to_string()
}

fn hello() -> Result<Vec<u8>> {
    Ok(std::fs::read(guest("hello"))?)
}

#[test]
fn every_guest_built_by_plain_cargo_is_small() -> Result<()> {
    for name in names()? {
        let size = std::fs::metadata(guest(&name))?.len();
        let most = match name.as_str() {
            // Calls every function that there is, servers that are no API servers among them.
            "conformance" => 448,
            // A service by configuration.
            "sync" => 384,
            // Whole controllers of the examples.
            "dns" | "mongodb" | "mongodb-operator" | "httpbin-operator" | "workspace-setup"
            | "spread" => 288,
            // Six controllers in one.
            "test-crash" => 160,
            // Whole clients of HTTP and of API servers.
            "test-wasi-http" | "test-calls" => 160,
            _ => 128,
        };
        assert!(
            size < most << 10,
            "{name} has {size} bytes: see what of the SDK it brings along"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named() {
    let error = sandbox()
        .load(std::path::Path::new("/nowhere/guest.wasm"))
        .await
        .expect_err("it is refused");
    assert_eq!(error.to_string(), "/nowhere/guest.wasm cannot be read");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn what_is_no_regular_file_is_refused_and_nobody_waits_for_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pipe = folder.path().join("pipe.wasm");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status()?;
    assert!(made.success());
    for path in [pipe.as_path(), std::path::Path::new("/dev/zero")] {
        let error = sandbox().load(path).await.expect_err("it is refused");
        let why = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(why.as_deref(), Some("it is no regular file: name one"));
    }
    Ok(())
}

#[tokio::test]
async fn random_bytes_are_not_webassembly() {
    let bytes = (0..4096_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    assert_eq!(
        refusal(bytes).await,
        "guest.wasm is not WebAssembly: give a component, as `windlass build` makes it"
    );
}

#[tokio::test]
async fn a_core_module_is_told_from_a_component() {
    let module = b"\0asm\x01\0\0\0".to_vec();
    assert!(
        refusal(module).await.contains(
            "is a core WebAssembly module, not a component: build it with `windlass build`"
        )
    );
}

#[tokio::test]
async fn a_file_cut_off_anywhere_is_refused() -> Result<()> {
    let whole = hello()?;
    for length in [0, 3, 6, 20, 1000, whole.len() / 2, whole.len() - 1] {
        let error = load(whole[..length].to_vec())
            .await
            .expect_err("it is refused");
        let expected = matches!(
            error,
            LoadError::Truncated { .. }
                | LoadError::NotWasm { .. }
                | LoadError::Invalid { .. }
                | LoadError::NotAGuest { .. }
        );
        assert!(expected, "cut off at {length}: {error}");
    }
    let half = refusal(whole[..whole.len() / 2].to_vec()).await;
    assert!(half.starts_with("guest.wasm ends in the middle"), "{half}");
    assert!(half.contains("copy or build it again"), "{half}");
    Ok(())
}

#[tokio::test]
async fn a_component_of_another_world_is_not_a_guest() {
    let empty = b"\0asm\x0d\0\x01\0".to_vec();
    let error = refusal(empty).await;
    assert!(
        error.contains("does not export windlass:runtime/reconciler@0.1.0 (it exports nothing)")
            && error.contains("build it against a world"),
        "{error}"
    );
}

#[tokio::test]
async fn a_component_of_a_newer_version_says_which() -> Result<()> {
    let newer = renamed(&hello()?, "@0.1.0", "@0.2.0");
    let error = refusal(newer).await;
    assert!(
        error.contains("another version of the contract")
            && error.contains("windlass:runtime/reconciler@0.2.0")
            && error.contains("build it against this one"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn an_import_that_no_guest_is_given_is_named() -> Result<()> {
    let asking = renamed(
        &hello()?,
        "windlass:runtime/config@0.1.0",
        "windmill:runtime/config@0.1.0",
    );
    let error = refusal(asking).await;
    assert!(
        error.starts_with(
            "guest.wasm imports windmill:runtime/config@0.1.0, which guests are not given"
        ),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn a_function_that_this_host_does_not_have_is_named() -> Result<()> {
    let asking = renamed(&hello()?, "record-event", "recall-event");
    let error = refusal(asking).await;
    assert!(
        error.contains("calls functions that this host does not have")
            && error.contains("recall-event")
            && error.contains("build the guest against this host's wit/"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn memory_that_threads_share_and_atomic_instructions_are_refused() {
    let shared = component(&[section(5, &[1, 0x03, 1, 1])]);
    let refused = refusal(shared).await;
    assert!(refused.contains("threads"), "{refused}");
    // i32.atomic.load
    let body = [0, 0x41, 0, 0xfe, 0x10, 0x02, 0, 0x1a, 0x0b];
    let atomic = component(&[
        section(1, &[1, 0x60, 0, 0]),
        section(3, &[1, 0]),
        section(5, &[1, 0, 1]),
        section(10, &[&[1, body.len() as u8][..], &body].concat()),
    ]);
    let refused = refusal(atomic).await;
    assert!(refused.contains("threads"), "{refused}");
}

#[tokio::test]
async fn a_component_over_the_size_limit_is_not_compiled() -> Result<()> {
    let small = windlass_sandbox::Sandbox::new(windlass_sandbox::Options {
        instances: 1,
        max_component: 1000,
        ..Default::default()
    })?;
    let error = small
        .load(guest("hello"))
        .await
        .expect_err("it is refused")
        .to_string();
    assert!(error.ends_with("at most 1000 bytes are loaded"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_guest_that_calls_other_clusters_needs_a_rule_that_opens_one() -> Result<()> {
    let stage = Stage::start(&[]).await?;
    let error = stage
        .guest("test-fleet")
        .load()
        .await?
        .err()
        .expect("it is refused");
    assert!(matches!(error, LoadError::FleetNotGranted), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_description_that_traps_loops_or_refuses_fails_the_load() -> Result<()> {
    let stage = Stage::start(&[]).await?;
    for (way, said) in [
        ("trap", "the guest's describe() failed: the guest trapped: "),
        (
            "loop",
            "the guest's describe() failed: no answer within 500ms: describe must only say what the guest wants",
        ),
        (
            "refuse",
            "the guest refuses to start: the config asks for the impossible",
        ),
        (
            "unknown-option",
            "watch 1 (v1/ConfigMap) has the option \"debounce\", which this host does not know",
        ),
        (
            "watch-nothing",
            "there is no watch, so the reconciler would never run: add a watch",
        ),
    ] {
        let error = stage
            .guest("test-describe")
            .config(json!({"way": way}))
            .load()
            .await?
            .err()
            .expect("it is refused")
            .to_string();
        assert!(error.starts_with(said), "{way}: {error}");
    }
    assert!(
        stage
            .guest("test-describe")
            .config(json!({"way": "well"}))
            .load()
            .await?
            .is_ok()
    );
    Ok(())
}

#[tokio::test]
async fn a_config_that_does_not_fit_fails_the_load_in_the_guests_words() -> Result<()> {
    let stage = Stage::start(&[]).await?;
    let error = stage
        .guest("hello")
        .config(json!({"greeting": 7}))
        .load()
        .await?
        .err()
        .expect("it is refused")
        .to_string();
    assert!(
        error.starts_with("the guest refuses to start: config: greeting: expected a string"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn an_inspection_says_what_a_guest_needs() -> Result<()> {
    let inspection = revision("hello")
        .await?
        .inspect(sandbox(), "{}", &[])
        .await?;
    assert_eq!(inspection.world, "windlass:runtime/reconcile@0.1.0");
    assert_eq!(inspection.title, "greets the people that ConfigMaps name");
    assert_eq!(inspection.primary.as_deref(), Some("v1/ConfigMap"));
    assert!(
        inspection
            .imports
            .iter()
            .all(|import| import.starts_with("windlass:runtime/")),
        "{:?}",
        inspection.imports
    );
    assert!(
        !inspection
            .imports
            .iter()
            .any(|import| import.contains("fleet")),
        "what is not used is not imported"
    );
    assert_eq!(
        inspection.watches,
        [
            "v1/ConfigMap, enqueued by primary, labels hello.windlass.dev/greet",
            "v1/ConfigMap, enqueued by controller-owner"
        ]
    );
    assert_eq!(
        inspection.rules_yaml,
        "- {apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, create, patch], namespaces: [\"*\"]}\n"
    );
    assert_eq!(
        revision("test-mapper")
            .await?
            .inspect(sandbox(), "{}", &[])
            .await?
            .world,
        "windlass:runtime/mapped-reconcile@0.1.0"
    );
    Ok(())
}
