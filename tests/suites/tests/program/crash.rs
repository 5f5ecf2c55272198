//! The program killed before and after each of its writes: what was asked for is there in the end, once.

use crate::objects::ConfigMaps;
use crate::project::{Project, reconciler};
use crate::witness::writer;
use anyhow::{Context, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use windlass_apiserver::{AnswerVerdict, Call, Cluster, Hook, RequestVerdict, Server};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::Program;

const SOON: Duration = Duration::from_secs(60);
/// Objects that are new in each life of the program.
const OBJECTS: usize = 3;

/// When the program dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The server has the request and does nothing about it.
    BeforeWrite,
    /// The server has done it and its answer never arrives.
    AfterWrite,
}

/// Kills a process at one of its writes.
#[derive(Default)]
struct Killer(Mutex<Plan>);

#[derive(Default)]
struct Plan {
    pid: Option<u32>,
    moment: Option<Moment>,
    /// Writes that are left to happen before the one it dies at.
    left: usize,
    /// Nothing that a dead process still had on its way counts.
    dead: bool,
}

impl Killer {
    fn aim(&self, pid: u32, moment: Moment, at: usize) {
        *self.0.lock() = Plan {
            pid: Some(pid),
            moment: Some(moment),
            left: at,
            dead: false,
        };
    }

    fn dead(&self) -> bool {
        self.0.lock().dead
    }

    /// Whether the process dies now.
    fn strike(&self, moment: Moment) -> bool {
        let mut plan = self.0.lock();
        let Some(pid) = plan
            .pid
            .filter(|_| plan.moment == Some(moment) && !plan.dead)
        else {
            return plan.dead;
        };
        if plan.left > 0 {
            plan.left -= 1;
            return false;
        }
        // Before anything else happens: it must not see how its write ends.
        let killed = std::process::Command::new("kill")
            .args(["-s", "KILL", &pid.to_string()])
            .status();
        plan.dead = killed.is_ok_and(|status| status.success());
        plan.dead
    }
}

impl Hook for Killer {
    fn request(&self, _: &str, call: &Call) -> RequestVerdict {
        if writer(call).is_some() && self.strike(Moment::BeforeWrite) {
            return RequestVerdict::Cut;
        }
        RequestVerdict::Proceed
    }

    fn answer(&self, _: &str, call: &Call, _: &Bytes) -> AnswerVerdict {
        if writer(call).is_some() && self.strike(Moment::AfterWrite) {
            return AnswerVerdict::Lose;
        }
        AnswerVerdict::Send
    }
}

/// The uids of the greetings by name.
fn greetings(alpha: &Cluster) -> Result<BTreeMap<String, String>> {
    let objects = alpha
        .list("v1", "ConfigMap", "default")
        .map_err(|e| anyhow::anyhow!("{e:?}"))?;
    let text = |object: &serde_json::Value, field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let all = objects
        .iter()
        .map(|object| (text(object, "name"), text(object, "uid")));
    Ok(all
        .filter(|(name, _)| name.ends_with("-greeting"))
        .collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_killed_before_or_after_any_write_leaves_nothing_undone_and_nothing_twice()
-> Result<()> {
    let killer = Arc::new(Killer::default());
    let server = Server::builder()
        .hook(killer.clone())
        .cluster("alpha")
        .bind("127.0.0.1:0")
        .await?;
    let alpha = server.cluster("alpha").context("alpha")?;
    let project = Project::new()?;
    let kubeconfig = project.write("clusters/fleet.kubeconfig", server.kubeconfig())?;
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    let objects = ConfigMaps::in_context(&kubeconfig, "alpha").await?;
    let start = || {
        Program::start(
            project.path(),
            ["run", "-f", "windlass.yaml", "--admin", "127.0.0.1:0"],
        )
    };

    let mut asked = Vec::new();
    let mut before = BTreeMap::new();
    for moment in [Moment::BeforeWrite, Moment::AfterWrite] {
        for at in 0..OBJECTS {
            let mut program = start()?;
            program.line_with("admin endpoints", SOON).await?;
            killer.aim(program.pid().context("it runs")?, moment, at);
            for object in 0..OBJECTS {
                let name = format!("{moment:?}-{at}-{object}").to_lowercase();
                objects.ask(&name, "world").await?;
                asked.push(name);
            }
            eventually(SOON, "its death", || async {
                Ok(Seen::of(killer.dead(), |dead| *dead))
            })
            .await?;
            assert_eq!(program.wait(SOON).await?.code(), None, "killed");
            let now = greetings(&alpha)?;
            assert!(
                before.iter().all(|(name, uid)| now.get(name) == Some(uid)),
                "made anew: {before:?} {now:?}"
            );
            before = now;
        }
    }
    let program = start()?;
    killer.aim(
        program.pid().context("it runs")?,
        Moment::BeforeWrite,
        usize::MAX,
    );
    for name in &asked {
        objects.expect_greeted(name).await?;
    }
    let now = greetings(&alpha)?;
    assert!(before.iter().all(|(name, uid)| now.get(name) == Some(uid)));
    assert_eq!(now.len(), asked.len());
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}
