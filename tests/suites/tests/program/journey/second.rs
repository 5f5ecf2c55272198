//! Several guests in one project: they share its packages and its SDK, and each is built and replaced for itself.

use super::Journey;
use crate::languages::BUILD;
use crate::objects::ConfigMaps;
use crate::running::SOON;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use windlass_harness::eventually::{Seen, eventually};

/// A second guest in a project of `windlass new`.
pub(super) struct Second {
    /// The files of the first guest that become files of the second one, in a folder of its own.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// The file of the second guest that greets.
    pub(super) source: &'static str,
    /// A mistake in it, where the build checks types for itself.
    pub(super) wrong: Option<Wrong>,
}

/// The last line of the second guest, and what a build says of it. `LINE` is its line.
pub(super) struct Wrong {
    pub(super) line: &'static str,
    pub(super) told: &'static [&'static str],
}

impl Journey {
    /// Each Reconciler has its guest, and a save of one guest leaves the other one as it is.
    pub(super) async fn has_two_guests(&self) -> Result<()> {
        self.add_a_second_guest()?;
        let args = ["dev", "--admin", "127.0.0.1:0"];
        let mut program = self.start(&self.folder, &args)?;
        program.line_with("admin endpoints", BUILD).await?;
        let kubeconfig = self.folder.join(".windlass/kubeconfig");
        let greeted = async |cluster: &str, word: &str| {
            let of = ConfigMaps::in_context(&kubeconfig, cluster).await?;
            let expected = format!("{word}, world, from {cluster}");
            eventually(BUILD, &expected, || async {
                let seen = of.greeting("crew").await?;
                Ok(Seen::of(seen, |seen| seen.as_ref() == Some(&expected)))
            })
            .await
        };
        greeted("alpha", "hello").await?;
        greeted("beta", "good day").await?;
        greeted("gamma", "hello").await?;
        if self.walk.language.lang == "python" {
            // It has all of CPython, so that it takes a while.
            let line = program.line_with("the guest is compiled", SOON).await?;
            ensure!(line.contains("seconds"), "{line}");
        }
        let source = self.second();
        let text = fs::read_to_string(&source)?;
        fs::write(&source, text.replace("good day, ", "welcome, "))?;
        greeted("beta", "welcome").await?;
        greeted("alpha", "hello").await?;
        program.signal("TERM")?;
        program.wait(SOON).await?.expect_code(0)?;
        Ok(())
    }

    /// The types of a guest below a package are checked, and it sees the modules beside it.
    pub(super) async fn second_is_wrong(&self, wrong: &Wrong) -> Result<()> {
        let source = self.second();
        let right = fs::read_to_string(&source)?;
        let text = format!("{right}\n{}\n", wrong.line);
        fs::write(&source, &text)?;
        let line = text.lines().count().to_string();
        let built = self.run(["build", "second"]).await?.expect_code(1)?;
        let said = format!("{}{}", built.stdout, built.stderr);
        for told in wrong.told {
            let told = told.replace("LINE", &line);
            ensure!(said.contains(&told), "{told} in {said}");
        }
        ensure!(!said.contains("missing"), "{said}");
        Ok(fs::write(source, right)?)
    }

    fn second(&self) -> PathBuf {
        self.folder.join("second").join(self.walk.second.source)
    }

    /// Adds a guest that greets with other words, and Reconcilers: the first one works in alpha, the one of the other guest in beta, and
    /// another one of the first guest's folder in gamma.
    fn add_a_second_guest(&self) -> Result<()> {
        for (of, name) in self.walk.second.files {
            let of = self.folder.join(of);
            let text = fs::read_to_string(&of).with_context(|| of.display().to_string())?;
            let path = self.folder.join("second").join(name);
            fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
            fs::write(path, text.replace("hello, ", "good day, "))?;
        }
        match self.walk.language.lang {
            "rust" => self.make_member()?,
            "python" => self.import_a_module_beside()?,
            _ => (),
        }
        let (provider, first) = self.documents.split_once("---\n").context("two")?;
        let in_cluster = |document: &str, cluster: &str| {
            let guest = format!("  clusters: {{names: [{cluster}]}}\n  guest:");
            document.replace("  guest:", &guest)
        };
        let name = format!("{{name: {:?}}}", self.name());
        ensure!(first.contains(&name), "{name} in {first}");
        let other = first
            .replace(&name, "{name: second}")
            .replace("{path: .}", "{path: ./second}");
        let again = in_cluster(first, "gamma").replace(&name, "{name: again}");
        let (first, other) = (in_cluster(first, "alpha"), in_cluster(&other, "beta"));
        fs::write(
            self.folder.join("windlass.yaml"),
            format!("{provider}---\n{first}---\n{other}---\n{again}"),
        )?;
        Ok(())
    }

    /// Makes the second guest a member of the workspace of the first one.
    fn make_member(&self) -> Result<()> {
        let root = self.folder.join("Cargo.toml");
        let text = fs::read_to_string(&root)?;
        let members = "[workspace]\nmembers = [\"second\"]\n";
        fs::write(&root, text.replace("[workspace]\n", members))?;
        let member = self.folder.join("second/Cargo.toml");
        let text = fs::read_to_string(&member)?;
        let own = text.split("# Small").next().unwrap_or(&text);
        let own = own
            .replace(&format!("{:?}", self.name()), "\"second\"")
            .replace("path = \"", "path = \"../");
        Ok(fs::write(member, own)?)
    }

    /// The second guest has a module of its own folder.
    fn import_a_module_beside(&self) -> Result<()> {
        let beside = self.folder.join("second/beside.py");
        fs::write(beside, "NUMBER: int = 1\n")?;
        let source = self.second();
        let text = fs::read_to_string(&source)?;
        let text = text + "\nfrom beside import NUMBER\n\nassert NUMBER == 1\n";
        Ok(fs::write(source, text)?)
    }
}
