//! Windlass: WebAssembly reconcilers across many Kubernetes clusters. Flags → command → exit code. Entry point: [`main`].

mod allocator;
mod output;
mod admin_address;
mod logging;
mod config;
mod cli;
mod status;
mod guests;
mod app;
mod reconcilers;
mod admin;
mod run;
mod dev;
mod command;

use clap::Parser;
use cli::{Cli, Command};
use logging::Traces;
use std::process::ExitCode;

/// What benches use of the program.
#[doc(hidden)]
pub mod bench {
    use crate::logging::{self, LogFormat};

    /// Logs as `run` does where its output is no terminal, with a filter.
    ///
    /// # Errors
    /// When the filter cannot be read.
    pub fn log(filter: &str) -> anyhow::Result<()> {
        logging::start(filter, Some(LogFormat::Json), None)
    }
}

/// Does what the arguments of the process ask for, and returns the code with which it is to end.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Command::CompileComponent(limits) = cli.command {
        // First of all, because this process compiles one component in little memory.
        return windlass_sandbox::compile(limits.memory, limits.seconds, limits.often);
    }
    let serves = matches!(cli.command, Command::Run(_) | Command::Dev(_));
    if serves && let Err(error) = allocator::give_back() {
        // The error is harmless: only unneeded memory is kept.
        anstream::eprintln!(
            "unused memory may not be returned to the system: the program cannot restart itself: {error}"
        );
    }
    match execute(cli) {
        Ok(code) => code,
        Err(error) => {
            // The error may contain text of a guest, a server or a file.
            let message = output::printable_lines(&format!("{error:#}")).into_owned();
            anstream::eprintln!("{} {message}", output::Tone::Bad.paint("error:"));
            command::FAILED
        }
    }
}

/// Whether a command is one that authors give again and again while they edit guests.
fn edits(command: &Command) -> bool {
    matches!(
        command,
        Command::Dev(_)
            | Command::Build(_)
            | Command::Check(_)
            | Command::Test(_)
            | Command::Replay(_)
            | Command::Rules(_)
    )
}

fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    let variable = std::env::var(logging::VARIABLE).ok();
    let filter = cli.log.as_deref().or(variable.as_deref());
    // Tests and builds print their results themselves.
    let usual = match cli.command {
        // Runs fail on purpose.
        Command::Test(ref args) if args.crash.crash => "error",
        Command::Test(_) | Command::Rules(_) | Command::Build(_) => "warn",
        Command::Push(_) | Command::Pull(_) => "warn",
        Command::Check(_) | Command::Crds(_) => "warn",
        // The output of a test says why it fails.
        Command::Fleet(_) => "error",
        // Their output says why a cluster is not reached.
        Command::Preflight(_)
        | Command::Plan(_)
        | Command::Get(_)
        | Command::Console(_)
        | Command::Requeue(_)
        | Command::Record(_)
        | Command::Replay(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Release(_)
        | Command::Rollback(_)
        | Command::Drain(_)
        | Command::Types(_) => "error",
        _ => "info",
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("windlass")
        .build()?;
    let traces = match cli.command {
        Command::Run(_) | Command::Dev(_) => Traces::from_environment(runtime.handle())?,
        _ => None,
    };
    logging::start(filter.unwrap_or(usual), cli.log_format, traces.as_ref())?;
    let format = cli.output;
    let engine = guests::engine::options(cli.cache, edits(&cli.command));
    let result = runtime.block_on(async {
        match cli.command {
            Command::Run(args) => command::run::execute(args, format, engine).await,
            Command::Dev(args) => command::dev::execute(args, format, engine).await,
            Command::New(args) => command::new::execute(&args, format),
            Command::Build(args) => command::build::execute(args, format, engine).await,
            Command::Test(args) => command::test::execute(args, format, engine).await,
            Command::Fleet(args) => command::fleet::execute(args).await,
            Command::Rules(args) => command::rules::execute(args, format, engine).await,
            Command::Check(args) => command::check::execute(args, format, engine).await,
            Command::Push(args) => command::registry::push(args, format, engine).await,
            Command::Pull(args) => command::registry::pull(args, format, engine).await,
            Command::Crds(args) => command::crds::execute(&args, format).await,
            Command::Rbac(args) => command::rbac::execute(args, format, engine).await,
            Command::Preflight(args) => command::preflight::execute(args, format, engine).await,
            Command::Plan(args) => command::plan::execute(args, format, engine).await,
            Command::Kcp(command) => command::kcp::execute(&command, format),
            Command::Get(args) => command::get::execute(args, format).await,
            Command::Console(args) => command::console::execute(args, format).await,
            Command::Requeue(args) => command::requeue::execute(args, format).await,
            Command::Record(args) => command::record::execute(args, format).await,
            Command::Replay(args) => command::replay::execute(args, format, engine).await,
            Command::Pause(args) => command::pause::pause(args, format).await,
            Command::Resume(args) => command::pause::resume(args, format).await,
            Command::Release(args) => command::release::execute(args, format).await,
            Command::Rollback(args) => command::rollback::execute(args, format).await,
            Command::Drain(args) => command::drain::execute(args, format).await,
            Command::Upgrade(args) => command::upgrade::execute(&args, format),
            Command::Types(args) => command::types::execute(args, format).await,
            Command::Completion(args) => command::completion::execute(&args),
            Command::Man(args) => command::completion::write_pages(&args),
            Command::CompileComponent(_) => Ok(command::DONE), // done by `main`
        }
    });
    if let Some(traces) = traces {
        traces.end();
    }
    // Tasks that still run had their time in the drain.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_authors_give_while_they_edit_compile_at_full_speed() {
        let often = |args: &[&str]| {
            let cli = Cli::try_parse_from([&["windlass"], args].concat()).unwrap();
            edits(&cli.command)
        };
        for args in [&["dev"][..], &["build"], &["test"], &["rules"]] {
            assert!(often(args), "{args:?}");
        }
        assert!(!often(&["run", "-f", "windlass.yaml"]));
    }
}
