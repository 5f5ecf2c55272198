//! The program's parts as a subject of the ledger, with a guest or natively. Entry points: [`arguments`] and [`run_if_asked`].
//!
//! It is not the program itself: the address space that valgrind leaves a process has no room for the program's pool of instances, and a
//! process under valgrind cannot start itself as a compiler.

use super::work::guest;
use crate::rivals::echo;
use crate::rivals::subject::{KUBE_RS, arguments as of_rival};
use crate::rivals::work::Given;
use anyhow::Result;
use serde_json::json;
use std::path::Path;
use windlass_harness::guests;

const UPDATES: &str = "--updates";
/// The guest `echo`.
pub(crate) const GUEST: &str = "guest";
/// The same reconciler in this process's own code.
pub(crate) const NATIVE: &str = "native";
/// Instances that run at once.
const INSTANCES: u32 = 4;

/// What this program is given to be a subject.
pub(crate) fn arguments(kind: &str, given: &Given) -> Result<Vec<String>> {
    let component = match kind {
        KUBE_RS => return Ok(of_rival(kind, given)?.into()),
        GUEST => guests::guest("echo").display().to_string(),
        _ => String::new(),
    };
    let compiled = guests::compiled().display().to_string();
    let given = serde_json::to_string(given)?;
    Ok(vec![UPDATES.to_owned(), component, compiled, given])
}

/// Where this process was started as a subject: works until it is killed.
pub(crate) async fn run_if_asked() -> Result<bool> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [first, component, compiled, given] = args.as_slice() else {
        return Ok(false);
    };
    if first != UPDATES {
        return Ok(false);
    }
    windlass::bench::log("info")?;
    let given: Given = serde_json::from_str(given)?;
    if component.is_empty() {
        echo::run_with(&given, None, echo::echo).await?;
    } else {
        let paths = [component, compiled].map(Path::new);
        let guest = guest(paths[0], paths[1], INSTANCES, &json!({})).await?;
        echo::run_with(&given, None, guest).await?;
    }
    Ok(true)
}
