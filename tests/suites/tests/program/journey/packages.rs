//! A guest in Python has packages of its environment, and none of the machine.

use super::Journey;
use crate::languages::{self, run};
use anyhow::{Result, ensure};
use std::fs;
use windlass_harness::program::binary;

impl Journey {
    pub(super) async fn has_packages(&self) -> Result<()> {
        let folder = &self.folder;
        // A Python that has a package stands for the machine's. The checker of types does not see this import.
        let given = "python3 -m venv --without-pip ../machine &&
            echo \"__import__('given')\" >> guest.py &&
            ln -s \"$(echo $PWD/../machine/lib/python3*/site-packages)/given.py\" ../given.py";
        run(folder, "sh", ["-c", given]).await?.expect_code(0)?;
        let package = self.outside.path().join("given.py");
        fs::write(&package, languages::PYTHON.stamp())?;
        let program = binary()?;
        let build = async |before: &str| {
            let line = format!("{before} {} build", program.display());
            run(folder, "sh", ["-c", &line]).await
        };
        let machine = "unset VIRTUAL_ENV; PATH=$PWD/../machine/bin:$PATH";
        let active = "VIRTUAL_ENV=$PWD/../machine";
        // The checker of types finds it in the environment.
        let guest = fs::read_to_string(folder.join("guest.py"))?;
        fs::write(folder.join("guest.py"), format!("{guest}import given\n"))?;
        let is_made = async || {
            let built = build(active).await?.expect_code(0)?;
            anyhow::Ok(built.stderr.contains(languages::PYTHON.says))
        };
        ensure!(is_made().await?, "the environment has a package");
        ensure!(!is_made().await?, "nothing has changed");
        fs::write(&package, languages::PYTHON.stamp())?;
        ensure!(is_made().await?, "the environment has changed");
        fs::write(folder.join("guest.py"), guest)?;
        let refused = build(machine).await?.expect_code(1)?.stderr;
        ensure!(refused.contains("No module named 'given'"), "{refused}");
        Ok(())
    }
}
