//! Several programs in one folder.

use crate::languages::{command, windlass};
use crate::objects::ConfigMaps;
use crate::project::Project;
use anyhow::Result;
use std::fs;
use std::net::TcpListener;
use std::time::Duration;
use windlass_harness::program::{Program, binary};

/// Toolchains come from registries the first time.
const BUILD: Duration = Duration::from_secs(900);
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn two_programs_in_one_folder_do_no_harm_to_each_other() -> Result<()> {
    let outside = Project::new()?;
    windlass(outside.path(), ["new", "demo", "--lang", "c"])
        .await?
        .expect_code(0)?;
    let folder = outside.path().join("demo");
    // Somebody has the admin address.
    let other = TcpListener::bind("127.0.0.1:0")?;
    let manager = format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: manager}}\nspec: {{admin: {{address: {:?}}}}}\n",
        other.local_addr()?.to_string()
    );
    let documents = folder.join("windlass.yaml");
    fs::write(&documents, fs::read_to_string(&documents)? + &manager)?;
    let mut running = Vec::new();
    for kubeconfig in ["kubeconfig", "kubeconfig-2"] {
        let mut program = Program::spawn(command(&folder, binary()?, ["dev"]))?;
        program.line_with("admin endpoints", BUILD).await?;
        let taken = "the admin address is taken, a free port is used";
        program.line_with(taken, SOON).await?;
        let kubeconfig = folder.join(".windlass").join(kubeconfig);
        let maps = ConfigMaps::in_context(&kubeconfig, "alpha").await?;
        maps.expect_greeting("crew", Some("hello, world, from alpha"))
            .await?;
        running.push((program, maps));
    }
    // A save reaches both, and neither reads what the other one is building.
    let source = folder.join("guest.c");
    let text = fs::read_to_string(&source)?;
    fs::write(&source, text.replace("hello, ", "welcome, "))?;
    for (_, maps) in &running {
        maps.expect_greeting("crew", Some("welcome, world, from alpha"))
            .await?;
    }
    // Each has clusters of its own, and goes on without the other.
    let (first, _) = running.remove(0);
    first.signal("TERM")?;
    first.wait(SOON).await?.expect_code(0)?;
    let (second, maps) = running.remove(0);
    maps.ask("late", "moon").await?;
    maps.expect_greeting("late", Some("welcome, moon, from alpha"))
        .await?;
    second.signal("TERM")?;
    second.wait(SOON).await?.expect_code(0)?;
    Ok(())
}
