//! Credential plugins: programs that print an `ExecCredential`. Entry point: [`run`].
//!
//! As client-go's, but that a plugin has no terminal, a deadline and a limit on what it prints, and that neither its output nor
//! its arguments reach an error or a log.

use crate::file::FileError;
use crate::http::config::{Exec, InteractiveMode};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::json;
use std::process::Stdio;
use std::time::{Duration, SystemTime};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

/// Longest output that is read.
const MAX_OUTPUT: u64 = 1 << 20;
/// A plugin that takes longer no longer counts among those that run at once: slow ones hold up no others.
const QUICK: Duration = Duration::from_secs(2);

/// What a plugin gave.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Issued {
    pub(super) token: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

impl Issued {
    /// Until when it may be used, if it says.
    pub(super) fn valid_until(&self) -> Option<SystemTime> {
        let text = self.expiration_timestamp.as_deref()?;
        text.parse::<jiff::Timestamp>().ok().map(SystemTime::from)
    }
}

#[derive(Deserialize)]
struct Credential {
    status: Option<Issued>,
}

/// Runs a plugin to its end, and kills it with all that it started when `deadline` has passed or the future is dropped.
///
/// # Errors
/// What went wrong, for people: never what the plugin printed.
pub(super) async fn run(
    config: &Exec,
    deadline: Duration,
    running: &Semaphore,
) -> Result<Issued, String> {
    // The semaphore is never closed.
    let mut permit = running.acquire().await.ok();
    let work = read(config);
    tokio::pin!(work);
    let end = tokio::time::sleep(deadline);
    tokio::pin!(end);
    loop {
        tokio::select! {
            output = &mut work => return understand(&output?),
            () = tokio::time::sleep(QUICK), if permit.is_some() => permit = None,
            () = &mut end => return Err(format!(
                "the credential plugin did not end within {deadline:?}: run it by hand to see what it waits for"
            )),
        }
    }
}

async fn read(config: &Exec) -> Result<Vec<u8>, String> {
    let mut plugin = start(config)?;
    let stdout = plugin.child.stdout.take();
    let mut output = Vec::new();
    if let Some(stdout) = stdout {
        let read = stdout.take(MAX_OUTPUT + 1).read_to_end(&mut output).await;
        read.map_err(|error| format!("the credential plugin's output cannot be read: {error}"))?;
    }
    if output.len() as u64 > MAX_OUTPUT {
        return Err(format!(
            "the credential plugin printed more than {MAX_OUTPUT} bytes"
        ));
    }
    match plugin.child.wait().await {
        Ok(status) if status.success() => Ok(output),
        Ok(status) => Err(format!(
            "the credential plugin failed ({status}): run it by hand to see why"
        )),
        Err(error) => Err(format!(
            "the credential plugin cannot be waited for: {error}"
        )),
    }
}

fn start(config: &Exec) -> Result<Plugin, String> {
    let Some(program) = config.command.as_ref().filter(|c| !c.is_empty()) else {
        return Err("the credential plugin has no command".to_owned());
    };
    if config.interactive_mode == Some(InteractiveMode::Always) {
        return Err(
            "the credential plugin wants a terminal (interactiveMode: Always): there is none"
                .to_owned(),
        );
    }
    let mut command = Command::new(program);
    command.args(config.args.iter().flatten());
    for variable in config.env.iter().flatten() {
        command.env(&variable.name, &variable.value);
    }
    let info = json!({
        "apiVersion": config.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1"),
        "kind": "ExecCredential",
        "spec": {"interactive": false, "cluster": config.cluster.as_ref().filter(|_| config.provide_cluster_info)},
    });
    command
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let child = command.spawn().map_err(|error| {
        let hint = config.install_hint.as_deref().unwrap_or_default();
        let hint: String = hint
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(200)
            .collect();
        let hint = if hint.is_empty() {
            hint
        } else {
            format!(": {hint}")
        };
        let error = FileError::from(error);
        format!("the credential plugin {program:?} cannot be run: {error}{hint}")
    })?;
    Ok(Plugin { child })
}

/// A running plugin. It ends with this, and so does what it started.
struct Plugin {
    child: Child,
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // No id: it has ended and was waited for, and its number may be another's by now.
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = id.and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn understand(output: &[u8]) -> Result<Issued, String> {
    // Errors of parsers quote what they read, so they are not passed on. Some plugins print YAML, which client-go reads too.
    let credential: Credential = serde_saphyr::from_slice(output)
        .map_err(|_| "the credential plugin printed no ExecCredential".to_owned())?;
    let issued = credential.status.unwrap_or_default();
    if issued.client_certificate_data.is_some() != issued.client_key_data.is_some() {
        return Err(
            "the credential plugin gave one of certificate and key without the other".to_owned(),
        );
    }
    if issued.token.is_none() && issued.client_certificate_data.is_none() {
        return Err("the credential plugin gave neither a token nor a certificate".to_owned());
    }
    Ok(issued)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(script: &str) -> Exec {
        serde_json::from_value(json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
            "interactiveMode": "Never",
        }))
        .unwrap()
    }

    async fn outcome(script: &str, deadline: Duration) -> Result<Issued, String> {
        run(&plugin(script), deadline, &Semaphore::new(1)).await
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_plugin_gives_a_token_and_says_until_when() {
        let issued = outcome(
            r#"echo '{"kind":"ExecCredential","status":{"token":"t","expirationTimestamp":"2030-01-01T00:00:00Z"}}'"#,
            LONG,
        );
        let issued = issued.await.ok().unwrap();
        assert_eq!(issued.token.as_deref(), Some("t"));
        assert!(issued.valid_until().unwrap() > SystemTime::now());
    }

    #[tokio::test]
    async fn what_a_failing_plugin_prints_reaches_no_error() {
        for script in [
            "echo hush; echo hush >&2; exit 3",
            "echo '{hush'",
            r#"echo '{"status":{"clientKeyData":"hush"}}'"#,
        ] {
            let error = outcome(script, LONG).await.err().unwrap();
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_plugin_that_hangs_is_killed_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let error = outcome(&script, Duration::from_millis(500)).await.err();
        assert!(error.unwrap().contains("did not end"));
        let child: i32 = std::fs::read_to_string(file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let gone = || {
            let status = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            status.is_empty() || status.contains(") Z ")
        };
        let deadline = tokio::time::Instant::now() + LONG;
        while !gone() {
            assert!(tokio::time::Instant::now() < deadline, "{child} still runs");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn slow_plugins_hold_up_no_others() {
        let running = std::sync::Arc::new(Semaphore::new(1));
        let (slow, by) = (plugin("sleep 600"), running.clone());
        let slow = tokio::spawn(async move { run(&slow, LONG, &by).await });
        let quick = plugin(r#"echo '{"status":{"token":"t"}}'"#);
        let issued = tokio::time::timeout(LONG / 2, run(&quick, LONG, &running));
        assert!(issued.await.unwrap().is_ok());
        slow.abort();
    }

    #[tokio::test]
    async fn endless_output_ends_at_the_limit() {
        let error = outcome("yes", LONG).await.err().unwrap();
        assert!(error.contains("more than"), "{error}");
    }
}
