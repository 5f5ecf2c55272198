//! Runs external tools. Entry point: [`Tool::new`].

use super::BuildError;
use clap::builder::styling::Style;
use rustix::process::{Pid, Signal, kill_process_group};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

/// The most that is read of a tool's standard output, in bytes.
const LARGEST_OUTPUT: u64 = 64 << 20;

/// A command line in a guest's folder. The tool's output goes to standard error at once. Dropping the run ends the tool and its
/// child processes.
pub(super) struct Tool {
    /// The name for people.
    name: String,
    /// How to install it: a command or an address.
    remedy: String,
    folder: PathBuf,
    command: Command,
}

impl Tool {
    /// A tool on the PATH, or at a path; `remedy` says how to install it.
    pub(super) fn new(
        program: impl AsRef<OsStr>,
        folder: &Path,
        remedy: impl Into<String>,
    ) -> Self {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command
            .current_dir(folder)
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        let name = Path::new(program).file_name().unwrap_or(program);
        Self {
            name: name.to_string_lossy().into_owned(),
            remedy: remedy.into(),
            folder: folder.to_owned(),
            command,
        }
    }

    /// Sets the name in messages, if it is not the name of the file.
    pub(super) fn called(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Adds an argument. A path in the guest's folder is made relative to it, which reads better.
    pub(super) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        let path = Path::new(argument.as_ref());
        let inside = path.strip_prefix(&self.folder);
        let inside = inside.ok().filter(|inside| !inside.as_os_str().is_empty());
        self.command.arg(inside.unwrap_or(path));
        self
    }

    /// Adds arguments.
    pub(super) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        for argument in arguments {
            self = self.arg(argument);
        }
        self
    }

    /// Sets a variable of its environment.
    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes a variable from its environment.
    pub(super) fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Prints the command, and runs it.
    ///
    /// # Errors
    /// When the tool is missing or fails.
    pub(super) async fn run(mut self) -> Result<(), BuildError> {
        self.command.stdout(std::io::stderr());
        self.say();
        self.finish().await.map(|_| ())
    }

    /// Prints the command, runs it, and returns its standard output.
    ///
    /// # Errors
    /// When the tool is missing or fails.
    pub(super) async fn output(mut self) -> Result<String, BuildError> {
        self.command.stdout(Stdio::piped());
        self.say();
        self.finish().await
    }

    /// As [`Tool::output`], but prints nothing, and returns `None` after a failure.
    ///
    /// # Errors
    /// When the tool is missing.
    pub(super) async fn ask(mut self) -> Result<Option<String>, BuildError> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::null());
        match self.finish().await {
            Ok(output) => Ok(Some(output)),
            Err(BuildError::Tool { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn say(&self) {
        let dim = Style::new().dimmed();
        anstream::eprintln!("{dim}$ {}{dim:#}", self.line());
    }

    /// The command line, as a shell would take it.
    pub(super) fn line(&self) -> String {
        let command = self.command.as_std();
        let variables = command.get_envs().filter_map(|(name, value)| {
            let value = value?.to_string_lossy();
            Some(format!("{}={}", name.to_string_lossy(), quoted(&value)))
        });
        let program = Path::new(command.get_program());
        let program = program.strip_prefix(&self.folder).unwrap_or(program);
        let words = std::iter::once(program.as_os_str()).chain(command.get_args());
        let words = words.map(|word| quoted(&word.to_string_lossy()).into_owned());
        variables.chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Its standard output, if it is captured.
    async fn finish(&mut self) -> Result<String, BuildError> {
        let child = self.command.spawn().map_err(|error| self.no_start(error))?;
        let mut running = Running(child);
        let output = running.0.stdout.take();
        let read = async {
            let mut bytes = Vec::new();
            if let Some(output) = output {
                let mut bounded = output.take(LARGEST_OUTPUT + 1);
                let read = bounded.read_to_end(&mut bytes).await;
                read.map_err(|error| self.no_start(error))?;
            }
            if bytes.len() as u64 > LARGEST_OUTPUT {
                Err(self.too_much())
            } else {
                Ok(bytes)
            }
        };
        let wait = async {
            let status = running.0.wait().await;
            status.map_err(|error| self.no_start(error))
        };
        let (status, bytes) = tokio::try_join!(wait, read)?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        Err(BuildError::Tool {
            tool: self.name.clone(),
            folder: self.folder.clone(),
            status,
        })
    }

    fn too_much(&self) -> BuildError {
        BuildError::Output {
            tool: self.name.clone(),
            folder: self.folder.clone(),
            limit: LARGEST_OUTPUT,
        }
    }

    fn no_start(&self, error: std::io::Error) -> BuildError {
        match error.kind() {
            std::io::ErrorKind::NotFound => BuildError::NoTool {
                tool: self.name.clone(),
                folder: self.folder.clone(),
                remedy: self.remedy.clone(),
            },
            _ => BuildError::Io {
                path: PathBuf::from(self.command.as_std().get_program()),
                error,
            },
        }
    }
}

/// A running tool, the head of a process group.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Without an id it has ended, and another process may have its number now.
        let id = self.0.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = id.and_then(Pid::from_raw) {
            // Fails if all have ended meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// The word, in quotes if a shell would split or change it.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_tool_is_told_with_what_gets_it() {
        let tool = Tool::new("no-such-tool", Path::new("."), "apt-get install tool");
        let said = tool.run().await.unwrap_err().to_string();
        assert!(
            said.contains("no-such-tool") && said.contains("apt-get install tool"),
            "{said}"
        );
    }

    #[tokio::test]
    async fn a_tool_that_fails_is_told_with_how_it_ended() {
        let shell = || Tool::new("sh", Path::new("."), "a shell");
        let said = shell()
            .args(["-c", "exit 7"])
            .run()
            .await
            .unwrap_err()
            .to_string();
        assert!(said.contains("sh") && said.contains('7'), "{said}");
        assert_eq!(shell().args(["-c", "exit 7"]).ask().await.unwrap(), None);
        let output = shell().args(["-c", "echo $A"]).env("A", "b").output().await;
        assert_eq!(output.unwrap(), "b\n");
    }

    #[tokio::test]
    async fn a_tool_that_prints_without_end_is_ended() {
        let shell = Tool::new("sh", Path::new("."), "a shell");
        let said = shell.args(["-c", "yes"]).output().await.unwrap_err();
        assert!(matches!(said, BuildError::Output { .. }), "{said}");
    }

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let tool = Tool::new("go", Path::new("."), "").env("GOOS", "wasip1");
        let tool = tool.args(["build", "-ldflags=-a -b", "it's", ""]);
        assert_eq!(
            tool.line(),
            r"GOOS=wasip1 go build '-ldflags=-a -b' 'it'\''s' ''"
        );
        let tool = Tool::new("/p/node_modules/.bin/x", Path::new("/p"), "");
        let tool = tool.args(["-o", "/p/out.wasm", "/elsewhere", "/p"]);
        assert_eq!(tool.line(), "node_modules/.bin/x -o out.wasm /elsewhere /p");
    }
}
