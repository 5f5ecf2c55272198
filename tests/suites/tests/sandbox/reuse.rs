//! Instances that serve several calls of one guest: what survives between calls, and what ends an instance.

use crate::fixture::{RunningGuest, Setup, Stage, config_map, revision, rule};
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::Grant;
use windlass_fleet::grant::Identity;
use windlass_harness::eventually::{Seen, wait};
use windlass_sandbox::{GuestOptions, Isolation, Options, Reuse, Sandbox};

/// Has a request run, and says how many calls its instance had by then.
async fn calls(stage: &Stage, running: &RunningGuest, name: &str) -> Result<u32> {
    stage.apply("alpha", config_map(name, json!({})))?;
    Ok(running.failure("alpha", name).await?.message.parse()?)
}

async fn reusing(stage: &Stage, name: &str, bounds: Reuse) -> Result<RunningGuest> {
    let guest = stage.guest("test-state").name(name);
    guest.isolation(Isolation::Reuse(bounds)).run().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_serves_as_many_calls_as_it_may_and_then_another_does() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let bounds = Reuse {
        calls: 3,
        ..Reuse::default()
    };
    let running = reusing(&stage, "three-calls", bounds).await?;
    let mut seen = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        seen.push(calls(&stage, &running, name).await?);
    }
    assert_eq!(seen, [1, 2, 3, 1, 2]);
    assert_eq!(running.guest.status().idle_instances, 1);
    assert!(running.guest.status().tenant_memory > 0, "idle ones count");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_word_every_call_has_an_instance_of_its_own() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = stage.guest("test-state").name("fresh-state").run().await?;
    assert_eq!(calls(&stage, &running, "a").await?, 1);
    assert_eq!(calls(&stage, &running, "b").await?, 1);
    assert_eq!(running.guest.status().idle_instances, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_and_a_timeout_end_the_instance() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let guest = stage.guest("test-state").name("ends-by-failing");
    let guest = guest.isolation(Isolation::Reuse(Reuse::default()));
    let timeout = Duration::from_secs(1);
    let running = guest
        .limits(|limits| limits.timeout = timeout)
        .run()
        .await?;
    for (name, reason) in [("trap", "trap"), ("loop", "timeout")] {
        assert_eq!(calls(&stage, &running, &format!("before-{name}")).await?, 1);
        stage.apply("alpha", config_map(name, json!({})))?;
        assert_eq!(running.failure("alpha", name).await?.reason, reason);
        stage
            .simulated("alpha")
            .delete("v1", "ConfigMap", "default", name)
            .expect("it is there");
        wait("all instances gone", || {
            Seen::of(running.guest.status().idle_instances, |idle| *idle == 0)
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_has_grown_too_large_is_given_up() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let bounds = Reuse {
        memory: 6 << 20,
        ..Reuse::default()
    };
    let running = reusing(&stage, "grows", bounds).await?;
    assert_eq!(calls(&stage, &running, "grow-a").await?, 1);
    assert_eq!(
        calls(&stage, &running, "grow-b").await?,
        2,
        "4 MiB may stay"
    );
    assert_eq!(calls(&stage, &running, "c").await?, 1, "8 MiB may not");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_instances_go_when_they_are_old() -> Result<()> {
    // An engine of its own: the task that evicts old instances runs on one test's runtime and ends with that.
    let setup = Setup {
        sandbox: Some(Sandbox::new(Options {
            instances: 4,
            ..Options::default()
        })?),
        ..Setup::default()
    };
    let stage = Stage::with(&["alpha"], setup).await?;
    let bounds = Reuse {
        age: Duration::from_millis(300),
        ..Reuse::default()
    };
    let running = reusing(&stage, "grows-old", bounds).await?;
    calls(&stage, &running, "a").await?;
    wait("the idle instance gone, and its memory back", || {
        let status = running.guest.status();
        let left = (status.idle_instances, status.tenant_memory);
        Seen::of(left, |left| *left == (0, 0))
    })
    .await?;
    assert_eq!(calls(&stage, &running, "b").await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_revision_or_configuration_begins_with_new_instances() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = reusing(&stage, "reconfigured", Reuse::default()).await?;
    assert_eq!(calls(&stage, &running, "a").await?, 1);
    assert_eq!(calls(&stage, &running, "b").await?, 2);
    running.guest.swap(revision("test-state").await?).await?;
    assert_eq!(running.guest.status().idle_instances, 0);
    assert_eq!(calls(&stage, &running, "c").await?, 1);
    Ok(())
}

/// Of one component, beside each other: two of a tenant, and one of another tenant that is called as one of these is.
#[tokio::test(flavor = "multi_thread")]
async fn reconcilers_of_one_component_have_instances_of_their_own() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let reuse = Isolation::Reuse(Reuse::default());
    let builder = |name: &str| stage.guest("test-state").name(name).isolation(reuse);
    let first = builder("counts").run().await?;
    let beside = builder("counts-too").tenant_of(&first).run().await?;
    let elsewhere = builder("counts-elsewhere").run().await?;
    let namesake = builder("counts").tenant_of(&elsewhere).run().await?;
    let guests = [first, beside, elsewhere, namesake];
    for (name, calls) in [("a", "1"), ("b", "2"), ("c", "3")] {
        stage.apply("alpha", config_map(name, json!({})))?;
        for running in &guests {
            let failure = running.failure("alpha", name).await?;
            assert_eq!(failure.message, calls, "calls of the instance at {name}");
        }
    }
    for running in &guests {
        assert_eq!(running.guest.status().idle_instances, 1);
    }
    Ok(())
}

/// A change of what a guest is given.
type Change = fn(&mut GuestOptions);

fn maps(verbs: &[&str], namespace: &str) -> Grant {
    Grant::new(vec![rule("", &["configmaps"], verbs, namespace)])
}

#[tokio::test(flavor = "multi_thread")]
async fn another_grant_configuration_or_identity_begins_with_new_instances() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let running = reusing(&stage, "given-else", Reuse::default()).await?;
    let changes: [(&str, Change); 6] = [
        ("verbs", |options| {
            options.grant = Arc::new(maps(&["get", "list", "watch"], "*"));
        }),
        ("identity", |options| {
            let somebody = Identity::new("somebody", &["some"]).expect("a name");
            options.grant = Arc::new(maps(&["*"], "*").impersonate(Some(somebody)));
        }),
        ("config", |options| {
            options.config = json!({"changed": true}).to_string();
        }),
        ("limits", |options| options.limits.host_calls = 1),
        ("isolation", |options| {
            let bounds = Reuse {
                calls: 7,
                ..Reuse::default()
            };
            options.isolation = Isolation::Reuse(bounds);
        }),
        ("nothing", |_| {}),
    ];
    for (what, change) in changes {
        let name = |number: u32| format!("{what}-{number}");
        let before = calls(&stage, &running, &name(0)).await?;
        assert!(before > 0 && running.guest.status().idle_instances == 1);
        running.reconfigure(change).await?;
        assert_eq!(running.guest.status().idle_instances, 0, "{what}");
        for number in 1..=2 {
            let calls = calls(&stage, &running, &name(number)).await?;
            assert_eq!(calls, number, "after another {what}");
        }
    }
    wait("the memory of one instance, and no more", || {
        let status = running.guest.status();
        let used = (status.idle_instances, status.tenant_memory);
        Seen::of(used, |(idle, memory)| *idle == 1 && *memory < 2 << 20)
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_instances_make_room_in_their_tenants_memory() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let guest = stage.guest("test-state").name("short-of-memory");
    let guest = guest.isolation(Isolation::Reuse(Reuse::default()));
    // Room for one instance that has grown, and not for two.
    let guest = guest.tenant(|limits| limits.memory = 7 << 20);
    let running = guest.run().await?;
    assert_eq!(calls(&stage, &running, "grow-a").await?, 1);
    assert_eq!(running.guest.status().idle_instances, 1);
    // Another guest of the same tenant, for the same request.
    let other = stage.guest("test-state").name("needs-memory");
    let other = other.tenant_of(&running).run().await?;
    assert_eq!(other.failure("alpha", "grow-a").await?.message, "1");
    assert_eq!(running.guest.status().idle_instances, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_of_an_earlier_call_reaches_nothing() -> Result<()> {
    let stage = Stage::start(&["alpha"]).await?;
    let guest = stage.guest("test-handle").name("keeps-across-calls");
    let guest = guest.isolation(Isolation::Reuse(Reuse::default()));
    let running = guest.run().await?;
    stage.apply("alpha", config_map("keep", json!({})))?;
    running
        .outcome("alpha", "keep")
        .await?
        .expect("keeping is no crime");
    stage.apply("alpha", config_map("use", json!({})))?;
    let failure = running.failure("alpha", "use").await?;
    assert_eq!(failure.reason, "handle");
    assert!(
        failure
            .message
            .contains("used after the call that it was given for"),
        "{failure}"
    );
    Ok(())
}
