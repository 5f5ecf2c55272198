//! Types of a kind of one's own: `windlass types` writes them, the guest uses them, and a build fails at a field that they do not have.

use super::Journey;
use super::served::Serving;
use crate::languages::BUILD;
use crate::types_written::odd;
use anyhow::{Result, ensure};
use serde_json::Value as Json;
use std::fs;
use std::path::PathBuf;

/// The kind, and an object of it, which the guests label.
const SHELVES: &str = include_str!("shelves.yaml");
/// A story about a shelf.
const LIFE: &str = include_str!("life.yaml");
/// How the guests label, and how they do after the save.
const LABEL: &str = "room for ";
const SAVED: &str = "space for ";

/// The field of shelves, as an author misspells it in names of fields, of members in Go and of macros in C.
const MISSPELT: [(&str, &str); 3] = [("siez", "size"), ("Siez", "Size"), ("SIEZ", "SIZE")];

/// Two mistakes with types, of which a build tells both.
pub(super) struct Mistake {
    /// A file with a misspelt field, and its text.
    pub(super) module: (&'static str, &'static str),
    /// What a build says of it.
    pub(super) module_told: &'static [&'static str],
    /// A line of the reconciler by which the file is a part of the guest.
    pub(super) import: &'static str,
    /// The last line of the reconciler.
    pub(super) wrong: &'static str,
    /// What a build says of it. `LINE` is its line.
    pub(super) told: &'static str,
}

impl Journey {
    /// Writes types of a kind and a guest that uses them, with the rules that it needs, and tests it.
    pub(super) async fn uses_types(&self) -> Result<()> {
        self.put_away()?;
        fs::write(self.folder.join("seed/shelves.yaml"), SHELVES)?;
        fs::write(self.folder.join("tests/life.yaml"), LIFE)?;
        if self.walk.language.lang == "javascript" {
            self.ask_for_the_checker_of_types()?;
        }
        // What checks types has all that a schema can have before it, too.
        self.outside.write("odd.json", odd().to_string())?;
        let types = ["types", "seed/shelves.yaml", "../odd.json"];
        self.run(types).await?.expect_code(0)?;
        let written = self.walk.written;
        ensure!(self.folder.join(written).is_file(), "{written}");
        self.save(self.walk.source)?;
        self.run(["rules", "--write"]).await?.expect_code(0)?;
        self.run(["test"]).await?.expect_code(0)?;
        Ok(())
    }

    /// A project of `new` in JavaScript says that comments are types, and the compiler of TypeScript reads them once it is installed.
    fn ask_for_the_checker_of_types(&self) -> Result<()> {
        let typed = "runtime/author/templates/typescript/package.json";
        let typed = fs::read(windlass_harness::repository().join(typed))?;
        let typed: Json = serde_json::from_slice(&typed)?;
        let package = self.folder.join("package.json");
        let mut untyped: Json = serde_json::from_slice(&fs::read(&package)?)?;
        let version = &typed["devDependencies"]["typescript"];
        ensure!(version.is_string(), "{typed}");
        untyped["devDependencies"]["typescript"] = version.clone();
        Ok(fs::write(package, untyped.to_string())?)
    }

    /// The build tells each line, and the guest that was there goes on.
    pub(super) async fn misspells(&self, dev: &mut Serving) -> Result<()> {
        dev.labels(LABEL).await?;
        let mistake = &self.walk.mistake;
        let (file, text) = mistake.module;
        let mark = dev.program.line_count();
        fs::write(self.folder.join(file), text)?;
        let before = self.walk.source.replace(LABEL, "wrong-");
        let wrong = format!("{before}\n{}\n{}\n", mistake.import, mistake.wrong);
        self.save(&wrong)?;
        let line = wrong.lines().count().to_string();
        let told = mistake.told.replace("LINE", &line);
        for told in mistake.module_told.iter().copied().chain([told.as_str()]) {
            dev.program.line_with_from(mark, told, BUILD).await?;
        }
        dev.program
            .line_with_from(mark, "build failed", BUILD)
            .await?;
        dev.labels(LABEL).await
    }

    /// What is saved takes over, for an object that was there before. The program goes on all the time.
    pub(super) async fn corrects(&self, dev: &Serving) -> Result<()> {
        let mistake = &self.walk.mistake;
        let (file, text) = mistake.module;
        let right = MISSPELT
            .iter()
            .fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        fs::write(self.folder.join(file), right)?;
        let saved = self.walk.source.replace(LABEL, SAVED);
        self.save(format!("{saved}\n{}\n", mistake.import))?;
        dev.labels(SAVED).await
    }

    /// Saves the reconciler that `new` made, which works for the objects that were there before.
    pub(super) async fn greets_again(&self, dev: &Serving) -> Result<()> {
        self.save(&self.greeter)?;
        dev.greets("hello").await?;
        ensure!(
            self.is_of_base()? == self.walk.base.is_some(),
            "`dev` makes the guest of a base, if the language has one"
        );
        self.put_back()
    }

    /// Moves what is about greetings, but for the objects, out of the project.
    fn put_away(&self) -> Result<()> {
        for (inside, outside) in self.places() {
            fs::rename(inside, outside)?;
        }
        Ok(())
    }

    fn put_back(&self) -> Result<()> {
        fs::remove_file(self.folder.join("tests/life.yaml"))?;
        for (inside, outside) in self.places() {
            fs::rename(outside, inside)?;
        }
        Ok(())
    }

    /// Where a test of greetings and the unit tests are, and where they wait while the guest labels shelves.
    fn places(&self) -> [(PathBuf, PathBuf); 2] {
        let away = self.outside.path();
        [
            (self.folder.join("tests/greets"), away.join("greets")),
            (
                self.folder.join(self.walk.unit_tests),
                away.join("unit-tests"),
            ),
        ]
    }
}
