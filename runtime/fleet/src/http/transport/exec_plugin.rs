//! Credential plugins: programs that print an `ExecCredential`. Entry point: [`run`].
//!
//! As in client-go, except that a plugin has no terminal, a deadline and a limit on its output.
//!
//! Invariant: neither the output nor the arguments of a plugin reach an error or a log. [`program`] says when a plugin is killed.
//!
//! Cost: one process per run. At most as many plugins start at once as the semaphore has permits; a plugin gives its permit back after
//! [`QUICK`], so slow plugins delay no others.

use crate::file::FileError;
use crate::http::config::{Exec, InteractiveMode};
use crate::program::{self, ProgramError};
use serde::Deserialize;
use serde_json::json;
use std::time::{Duration, SystemTime};
use tokio::process::Command;
use tokio::sync::Semaphore;

/// Longest output that is read, in bytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// How long a plugin holds its permit.
const QUICK: Duration = Duration::from_secs(2);
/// Longest install hint that an error quotes, in characters.
const MAX_HINT: usize = 200;

/// Why a plugin gave no credentials. No message quotes what the plugin printed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginError {
    #[error("the credential plugin has no command")]
    NoCommand,
    #[error("the credential plugin wants a terminal (interactiveMode: Always): there is none")]
    WantsTerminal,
    #[error("the credential plugin {program:?} cannot be run: {error}{hint}")]
    NotRun {
        program: String,
        error: FileError,
        /// The plugin's install hint after a colon, or empty.
        hint: String,
    },
    #[error(
        "the credential plugin did not end within {0:?}: run it by hand to see what it waits for"
    )]
    TooSlow(Duration),
    #[error("the credential plugin {0}")]
    NoOutput(ProgramError),
    #[error("the credential plugin printed no ExecCredential")]
    NotACredential,
    #[error("the credential plugin gave one of certificate and key without the other")]
    HalfACertificate,
    #[error("the credential plugin gave neither a token nor a certificate")]
    Empty,
}

/// The credentials that a plugin gave.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Issued {
    pub(super) token: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

impl Issued {
    /// When the credentials expire, if the plugin gave a time.
    pub(super) fn valid_until(&self) -> Option<SystemTime> {
        let text = self.expiration_timestamp.as_deref()?;
        text.parse::<jiff::Timestamp>().ok().map(SystemTime::from)
    }
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Issued>,
}

/// Runs a plugin to its end, at most until `deadline` has passed. The deadline begins when the plugin has a permit.
///
/// # Errors
/// [`PluginError`].
pub(super) async fn run(
    config: &Exec,
    deadline: Duration,
    permits: &Semaphore,
) -> Result<Issued, PluginError> {
    // The semaphore is never closed.
    let mut permit = permits.acquire().await.ok();
    let work = read_output(config);
    tokio::pin!(work);
    let end = tokio::time::sleep(deadline);
    tokio::pin!(end);
    loop {
        tokio::select! {
            output = &mut work => return parse(&output?),
            () = tokio::time::sleep(QUICK), if permit.is_some() => permit = None,
            () = &mut end => return Err(PluginError::TooSlow(deadline)),
        }
    }
}

async fn read_output(config: &Exec) -> Result<Vec<u8>, PluginError> {
    let Some(program) = config.command.as_ref().filter(|c| !c.is_empty()) else {
        return Err(PluginError::NoCommand);
    };
    if config.interactive_mode == Some(InteractiveMode::Always) {
        return Err(PluginError::WantsTerminal);
    }
    let output = program::output(&mut command(program, config), MAX_OUTPUT).await;
    output.map_err(|error| match error {
        ProgramError::NotRun(error) => PluginError::NotRun {
            program: program.clone(),
            error,
            hint: install_hint(config),
        },
        error => PluginError::NoOutput(error),
    })
}

fn command(program: &str, config: &Exec) -> Command {
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
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    command
}

fn install_hint(config: &Exec) -> String {
    let hint = config.install_hint.as_deref().unwrap_or_default();
    match hint.lines().next() {
        Some(line) if !line.is_empty() => {
            format!(": {}", line.chars().take(MAX_HINT).collect::<String>())
        }
        _ => String::new(),
    }
}

fn parse(output: &[u8]) -> Result<Issued, PluginError> {
    // A parser's error quotes its input, so it is dropped. Some plugins print YAML, which client-go reads too.
    let credential: ExecCredential =
        serde_saphyr::from_slice(output).map_err(|_| PluginError::NotACredential)?;
    let issued = credential.status.unwrap_or_default();
    if issued.client_certificate_data.is_some() != issued.client_key_data.is_some() {
        return Err(PluginError::HalfACertificate);
    }
    if issued.token.is_none() && issued.client_certificate_data.is_none() {
        return Err(PluginError::Empty);
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

    async fn outcome(script: &str, deadline: Duration) -> Result<Issued, PluginError> {
        run(&plugin(script), deadline, &Semaphore::new(1)).await
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_plugin_gives_a_token_and_its_expiry() {
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
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_plugin_that_hangs_is_too_slow() {
        let error = outcome("sleep 600", Duration::from_millis(500)).await.err();
        assert!(matches!(error, Some(PluginError::TooSlow(_))), "{error:?}");
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
}
