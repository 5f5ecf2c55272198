//! MongoDB's Community Operator on a real server. Entry point: [`MongoOperator::start`].

use anyhow::{Context, Result};

use super::binaries::made_from;
use super::process::Process;
use super::{Server, crds};

/// What the operator asks of its environment. No image is ever run.
const ENVIRONMENT: [&str; 7] = [
    "OPERATOR_NAME=mongodb-kubernetes-operator",
    "POD_NAME=operator",
    "AGENT_IMAGE=agent:1",
    "VERSION_UPGRADE_HOOK_IMAGE=hook:1",
    "READINESS_PROBE_IMAGE=probe:1",
    "MONGODB_IMAGE=mongodb-community-server",
    "MONGODB_REPO_URL=quay.io/mongodb",
];

/// The real operator, for all namespaces of a server. It ends when this is dropped.
#[derive(Debug)]
pub struct MongoOperator {
    process: Process,
}

impl MongoOperator {
    /// Gives a server the operator's kind, and starts the operator.
    ///
    /// # Errors
    /// When `tests/testenv/build` did not run, or the server refuses the kind.
    pub async fn start(server: &Server) -> Result<Self> {
        let made = made_from("mongodb")?;
        let kind = crds::read(&made.join("mongodbcommunity.mongodb.com_mongodbcommunity.yaml"))?;
        crds::install(&server.client().await?, &kind).await?;
        let home = server.home();
        let kubeconfig = home.join("operator.kubeconfig");
        server.write_kubeconfig(&kubeconfig)?;
        let program = made.join("mongodb-operator");
        let mut args: Vec<String> = ENVIRONMENT.map(str::to_owned).into();
        args.push(program.display().to_string());
        args.push(format!("--kubeconfig={}", kubeconfig.display()));
        let log = home.join("mongodb-operator.log");
        // This one sets the environment of the program after it.
        let process = Process::spawn("/usr/bin/env".as_ref(), &args, &log);
        let process = process.context("start MongoDB's operator")?;
        Ok(Self { process })
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}
