//! An author's whole path in each language, in one project: a new one, its types, mistakes, saves while `dev` runs, errors, a second guest.
//! Each step has assertions of its own, and a failure names the step. Entry points: the tests, a [`Walk`] for each.

#[path = "journey/compiled.rs"]
mod compiled;
#[path = "journey/kind.rs"]
mod kind;
#[path = "journey/made.rs"]
mod made;
#[path = "journey/packages.rs"]
mod packages;
#[path = "journey/saves.rs"]
mod saves;
#[path = "journey/second.rs"]
mod second;
#[path = "journey/served.rs"]
mod served;
#[path = "journey/throws.rs"]
mod throws;
#[path = "journey/typed.rs"]
mod typed;
#[path = "journey/walks.rs"]
mod walks;

use crate::languages::{Language, command, windlass};
use crate::project::Project;
use anyhow::{Context, Result, ensure};
use second::Second;
use served::Serving;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use throws::Throw;
use typed::Mistake;
use windlass_harness::program::{Finished, Program, binary};

/// What an author writes in a language.
struct Walk {
    language: Language,
    /// A kind whose name means something else to the language or its tools.
    kind: &'static str,
    /// A reconciler of shelves, which uses their types.
    source: &'static str,
    /// The unit tests of a new project, which are about its own reconciler.
    unit_tests: &'static str,
    /// The file that the types of shelves are in.
    written: &'static str,
    mistake: Mistake,
    throw: Throw,
    second: Second,
    /// The folder of the base that `dev` makes guests of, if the language has one.
    base: Option<&'static str>,
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn a_project_in_rust_goes_all_the_way() -> Result<()> {
    walk(&walks::RUST).await
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn a_project_in_typescript_goes_all_the_way() -> Result<()> {
    walk(&walks::TYPESCRIPT).await
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn a_project_in_javascript_goes_all_the_way() -> Result<()> {
    walk(&walks::JAVASCRIPT).await
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn a_project_in_python_goes_all_the_way() -> Result<()> {
    walk(&walks::PYTHON).await
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn a_project_in_go_goes_all_the_way() -> Result<()> {
    walk(&walks::GO).await
}

#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn a_project_in_c_goes_all_the_way() -> Result<()> {
    walk(&walks::C).await
}

async fn walk(walk: &'static Walk) -> Result<()> {
    let lang = walk.language.lang;
    let project = step("a new project", Journey::begin(walk)).await?;
    step("its unit tests", project.unit_tests_pass()).await?;
    let stamped = project.greeter.clone() + &walk.language.stamp();
    let digest = step("a build", project.builds(&stamped)).await?;
    let elsewhere = made::elsewhere(walk, &stamped, &digest);
    step("the same source in another folder", elsewhere).await?;
    step("check, test and dev", project.checks_and_runs()).await?;
    step("a project of a kind", project.of_a_kind()).await?;

    step("types, rules and a test", project.uses_types()).await?;
    if lang == "python" {
        step("a base at the start of dev", project.has_a_base_at_once()).await?;
    }
    let mut dev = step("a start of dev", Serving::start(&project)).await?;
    step("a misspelt field", project.misspells(&mut dev)).await?;
    step("a right save", project.corrects(&dev)).await?;
    step("another reconciler", project.greets_again(&dev)).await?;
    match lang {
        "python" => step("saves in Python", project.saves_python(&dev)).await?,
        "javascript" => step("saves in JavaScript", project.saves_javascript(&mut dev)).await?,
        _ => (),
    }
    let told = step("an error in dev", project.throws(dev)).await?;
    step("an error in test", project.test_throws(&told)).await?;

    step("a second guest", project.has_two_guests()).await?;
    if let Some(wrong) = &walk.second.wrong {
        step("a mistake in it", project.second_is_wrong(wrong)).await?;
    }
    match walk.base {
        Some(_) => step("a build without a base", project.builds_without_a_base()).await?,
        None => step("what a save compiles", project.compiles_what_changed()).await?,
    }
    Ok(())
}

/// A part of the journey. Its failure has this name, and the output of a failed test says what each part took.
async fn step<T>(name: &str, part: impl Future<Output = Result<T>>) -> Result<T> {
    let began = Instant::now();
    let done = Box::pin(part).await;
    eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    done.with_context(|| format!("in the step {name:?}"))
}

/// The project of a journey.
struct Journey {
    walk: &'static Walk,
    outside: Project,
    folder: PathBuf,
    /// The reconciler that `new` made.
    greeter: String,
    /// The documents that `new` made.
    documents: String,
}

impl Journey {
    /// Makes the project, whatever is around it.
    async fn begin(walk: &'static Walk) -> Result<Self> {
        let outside = Project::new()?;
        outside.write("Cargo.toml", "[workspace]\nmembers = []\n")?;
        let folder = made::new_in(outside.path(), &walk.language).await?;
        Ok(Self {
            walk,
            greeter: fs::read_to_string(folder.join(walk.language.source))?,
            documents: fs::read_to_string(folder.join("windlass.yaml"))?,
            outside,
            folder,
        })
    }

    fn name(&self) -> String {
        format!("journey-{}", self.walk.language.lang)
    }

    /// Saves the reconciler.
    fn save(&self, text: impl AsRef<str>) -> Result<()> {
        let source = self.folder.join(self.walk.language.source);
        Ok(fs::write(source, text.as_ref())?)
    }

    /// Saves the reconciler that `new` made with replacements, the texts of all of which it has.
    fn save_greeter(&self, replaced: &[(&str, &str)]) -> Result<()> {
        let mut text = self.greeter.clone();
        for (from, to) in replaced {
            ensure!(text.contains(from), "{from:?} in {text}");
            text = text.replace(from, to);
        }
        self.save(text)
    }

    /// Runs the program in the project to its end.
    async fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Result<Finished> {
        self.run_in(&self.folder, args).await
    }

    /// Runs the program in a folder to its end.
    async fn run_in<A: AsRef<OsStr>>(
        &self,
        folder: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Finished> {
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned());
        windlass(folder, args.chain(self.cache())).await
    }

    /// Starts the program in a folder.
    fn start(&self, folder: &Path, args: &[&str]) -> Result<Program> {
        let args = args.iter().map(OsString::from).chain(self.cache());
        Program::spawn(command(folder, binary()?, args))
    }

    /// Compiled guests are kept beside the project: those of a journey would push all others out of the user's folder, for nothing.
    fn cache(&self) -> [OsString; 2] {
        let folder = self.outside.path().join("compiled");
        ["--cache".into(), folder.into()]
    }

    /// Builds the guest, as it is published, and returns it.
    async fn build(&self) -> Result<Vec<u8>> {
        let built = self.run(["build"]).await?.expect_code(0)?.stdout;
        ensure!(built.contains(".windlass/guest.wasm"), "{built}");
        self.component()
    }

    /// The component that was built last.
    fn component(&self) -> Result<Vec<u8>> {
        Ok(fs::read(self.folder.join(".windlass/guest.wasm"))?)
    }

    /// What was made of the base last, if the language has one.
    fn of_base(&self) -> Result<Option<Vec<u8>>> {
        let path = |base| format!(".windlass/build/{base}/guest.wasm");
        let made = self.walk.base.map(|base| self.folder.join(path(base)));
        Ok(made.map(fs::read).transpose()?)
    }

    /// Whether the guest that is served was made of the base.
    fn is_of_base(&self) -> Result<bool> {
        Ok(self.of_base()? == Some(self.component()?))
    }
}
