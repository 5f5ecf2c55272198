//! The commands of docs/tutorial.md, run as they are written: from a kind to an image in a registry.

use crate::readme::{bash, commands};
use anyhow::Result;
use windlass_harness::program::binary;
use windlass_harness::testenv::real_registry::ReferrersRegistry;

const PAGE: &str = "docs/tutorial.md";
/// The page's parts, and the least number of lines of commands in each.
const PARTS: [(&str, usize); 6] = [
    ("A project", 3),
    ("The kind", 30),
    ("The controller", 15),
    ("A test", 20),
    ("A try with kubectl", 10),
    ("An image", 1),
];
/// The program as this machine has it. `dev` has a terminal of its own, and the registry has no TLS.
const TOOLS: &str = r#"
windlass() {
  case "$*" in
    dev)
      "$PROGRAM" dev --admin 127.0.0.1:0 &
      running=$!
      until [[ -e .windlass/kubeconfig ]]; do
        kill -0 "$running"
        sleep 0.1
      done
      ;;
    push* | pull*) "$PROGRAM" "$@" --plain-http "$(cat ../registry)" ;;
    *) "$PROGRAM" "$@" ;;
  esac
}
running=
trap 'if [[ $running ]]; then kill "$running"; wait "$running" || true; fi' EXIT
"#;
/// What is in the registry is the guest.
const CHECK: &str = "windlass pull registry.example.com/banners:1.0.0 pulled.wasm\ncmp pulled.wasm .windlass/guest.wasm";

#[tokio::test]
#[ignore = "needs real servers and other languages' tools"]
async fn the_commands_of_the_tutorial_do_what_it_says() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let registry = ReferrersRegistry::start().await?;
    std::fs::write(folder.path().join("registry"), registry.host())?;
    let mut text = TOOLS.to_owned();
    for (part, least) in PARTS {
        text += &(commands(PAGE, part, least)?.join("\n") + "\n");
    }
    text += CHECK;
    let text = text.replace("registry.example.com", &registry.host());
    let program = binary()?;
    bash(folder.path(), &text, &[("PROGRAM", &program)]).await
}
