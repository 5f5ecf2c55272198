//! What `windlass get` tells of keys, once and for as long as it is let.

use crate::languages::command;
use crate::project::{Project, reconciler};
use crate::running::{SOON, ask, client_of, fleet, key, start};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Program, binary};

/// A reconciler whose writes are denied, so that its keys fail.
pub(crate) fn denied() -> String {
    reconciler("hello", &guest("hello"))
        .replace("[get, list, watch, create, patch]", "[get, list, watch]")
}

#[tokio::test]
async fn a_key_says_which_kinds_event_enqueued_it() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[denied()])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let alpha = client_of(&project, "alpha").await?;
    alpha.ask("a", "world").await?;
    let (_program, address) = start(&project).await?;
    let failing = ["get", "keys", "--state", "failing"];
    let item = eventually(SOON, "a key that is tried again", || async {
        let keys = ask(&project, &address, &failing).await?;
        let item = keys["items"][0].clone();
        Ok(Seen::of(item, |item| item["cause"] == "retry"))
    })
    .await?;
    assert_eq!(item["source"], "v1/ConfigMap");
    let of_key = key("alpha", "a")?;
    let args = ["get", "keys", &of_key, "-o", "wide", "--admin", &address];
    let text = Program::run(project.path(), args, SOON)
        .await?
        .expect_code(0)?
        .stdout;
    assert!(text.contains("retry (v1/ConfigMap)"), "{text}");
    Ok(())
}

/// Runs a program in a terminal of 80 columns, and prints what it shows.
const TERMINAL: &str = "import fcntl, os, pty, struct, sys, termios\n\
    child, terminal = pty.fork()\n\
    if child == 0:\n    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('4H', 24, 80, 0, 0))\n    \
    os.execv(sys.argv[1], sys.argv[1:])\n\
    try:\n    while shown := os.read(terminal, 4096):\n        os.write(1, shown)\n\
    except OSError:\n    pass\n";

#[tokio::test]
#[ignore = "needs python3"]
async fn tables_fit_a_terminal_unless_all_is_asked_for() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[denied()])?;
    let _server = fleet(&project, &["alpha"]).await?;
    client_of(&project, "alpha")
        .await?
        .ask("a", "world")
        .await?;
    let (_program, address) = start(&project).await?;
    let of_key = key("alpha", "a")?;
    eventually(SOON, "a key that is failing", || async {
        let keys = ask(&project, &address, &["get", "keys", "--state", "failing"]).await?;
        Ok(Seen::of(keys, |keys| keys["items"][0].is_object()))
    })
    .await?;
    let program = binary()?.display().to_string();
    let shown = async |of: &[&str]| {
        let args = ["-c", TERMINAL, &program, "get", "--admin", &address];
        let args = [&args[..], of].concat();
        let command = command(project.path(), "python3", args);
        let shown = Program::spawn(command)?.wait(SOON).await?;
        anyhow::Ok(shown.expect_code(0)?.stdout)
    };
    let table = shown(&["keys"]).await?;
    assert!(table.contains(&of_key) && table.contains('…'), "{table}");
    let width = |table: &str| table.lines().map(|line| line.chars().count()).max();
    assert_eq!(width(&table), Some(80), "{table}");
    assert!(width(&shown(&["keys", "-o", "wide"]).await?) > Some(80));
    for what in ["clusters", "providers", "reconcilers", "tenants"] {
        let table = shown(&[what]).await?;
        assert!(table.lines().count() > 1, "{table}");
        assert!(width(&table) <= Some(80), "{table}");
    }
    Ok(())
}

#[tokio::test]
async fn get_goes_on_to_print_what_changes_until_it_is_interrupted() -> Result<()> {
    let project = Project::new()?;
    project.write_config(&[denied()])?;
    let _server = fleet(&project, &["alpha"]).await?;
    let alpha = client_of(&project, "alpha").await?;
    let (_program, address) = start(&project).await?;
    let failing = ["get", "keys", "--state", "failing", "--watch"];
    let json = ["--admin", &address, "-o", "json"];
    let mut lines = Program::start(project.path(), failing.iter().chain(&json))?;
    let text = ["--admin", &address];
    let mut rows = Program::start(project.path(), failing.iter().chain(&text))?;

    alpha.ask("a", "world").await?;
    let line = lines.line_with("\"change\":\"now\"", SOON).await?;
    let line: Json = serde_json::from_str(&line)?;
    let named = line["item"]["key"].as_str().context("a key")?;
    assert_eq!(named, key("alpha", "a")?);
    rows.line_with("ERROR", SOON).await?;
    rows.line_with(named, SOON).await?;

    // A rule that lets it write: the key fails no more.
    project.write_config(&[reconciler("hello", &guest("hello"))])?;
    lines.line_with("\"change\":\"gone\"", SOON).await?;
    rows.line_with(&format!("gone: {named}"), SOON).await?;
    for watching in [lines, rows] {
        watching.signal("INT")?;
        let ended = watching.wait(SOON).await?;
        assert!(
            ended.status.code().is_none(),
            "ended by the signal: {ended:?}"
        );
    }
    Ok(())
}
