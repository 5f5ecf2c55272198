//! `dev` makes guests in Python and JavaScript of a base, whatever a save brings. `build` makes the component from nothing.

use crate::languages::{self, BUILD, Language, command, has_tools, windlass};
use crate::objects::ConfigMaps;
use crate::project::Project;
use crate::running::SOON;
use anyhow::{Result, ensure};
use std::fs;
use std::path::PathBuf;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::{Program, binary};

/// A new guest that `dev` runs.
struct Saved {
    _outside: Project,
    folder: PathBuf,
    source: PathBuf,
    /// What was made of the base last.
    of_base: PathBuf,
    /// The source as it was made.
    text: String,
    dev: Program,
    alpha: ConfigMaps,
}

impl Saved {
    async fn start(language: &Language, base: &str) -> Result<Self> {
        let outside = Project::new()?;
        let new = ["new", "saves", "--lang", language.lang];
        windlass(outside.path(), new).await?.expect_code(0)?;
        let folder = outside.path().join("saves");
        let source = folder.join(language.source);
        let args = ["dev", "--admin", "127.0.0.1:0"];
        let mut dev = Program::spawn(command(&folder, binary()?, args))?;
        dev.line_with("admin endpoints", BUILD).await?;
        let saved = Self {
            alpha: ConfigMaps::in_context(&folder.join(".windlass/kubeconfig"), "alpha").await?,
            of_base: folder.join(format!(".windlass/build/{base}/guest.wasm")),
            text: fs::read_to_string(&source)?,
            _outside: outside,
            folder,
            source,
            dev,
        };
        saved.greets("hello").await?;
        ensure!(saved.is_of_base()?, "the guest is made of a base");
        Ok(saved)
    }

    /// Saves the source with replacements, all of which it has.
    fn save(&self, replaced: &[(&str, &str)]) -> Result<()> {
        let mut text = self.text.clone();
        for (from, to) in replaced {
            ensure!(text.contains(from), "{from:?} in {text}");
            text = text.replace(from, to);
        }
        Ok(fs::write(&self.source, text)?)
    }

    async fn greets(&self, word: &str) -> Result<()> {
        let expected = format!("{word}, world");
        eventually(BUILD, &format!("{expected:?}"), || async {
            let value = self.alpha.greeting("crew").await?;
            Ok(Seen::of(value, |value| {
                value
                    .as_ref()
                    .is_some_and(|value| value.starts_with(&expected))
            }))
        })
        .await
        .map(drop)
    }

    /// Whether the guest that is served was made of the base.
    fn is_of_base(&self) -> Result<bool> {
        let served = fs::read(self.folder.join(".windlass/guest.wasm"))?;
        Ok(fs::read(&self.of_base)? == served)
    }

    /// Saves what was there first, ends `dev`, and looks at what `build` makes.
    async fn end(self) -> Result<()> {
        self.save(&[])?;
        self.greets("hello").await?;
        self.dev.signal("TERM")?;
        self.dev.wait(SOON).await?.expect_code(0)?;
        windlass(&self.folder, ["build"]).await?.expect_code(0)?;
        let built = fs::read(self.folder.join(".windlass/guest.wasm"))?;
        ensure!(
            built != fs::read(&self.of_base)?,
            "no base is in what is published"
        );
        Ok(())
    }
}

/// A module, an import that the base lacks, and what a module does without. A module that does more than the base can, such as to read a
/// file while it is imported, works all the same.
#[tokio::test]
async fn saves_of_a_guest_in_python_may_do_all_that_a_build_may() -> Result<()> {
    if !has_tools(languages::PYTHON.tools, "saves of a guest in Python") {
        return Ok(());
    }
    let saved = Saved::start(&languages::PYTHON, "python-base").await?;
    let save = |more: &str, word: &str| {
        let (greeting, import) = ("hello, {who}", "from windlass import (");
        let (word, more) = (format!("{{{word}}}, {{who}}"), format!("{more}\n{import}"));
        saved.save(&[(greeting, &word), (import, &more)])
    };
    fs::create_dir(saved.folder.join("words"))?;
    fs::write(saved.folder.join("words/greet.py"), "WORD = 'ahoy'\n")?;
    save("from words.greet import WORD", "WORD")?;
    saved.greets("ahoy").await?;
    save("import textwrap", "textwrap.shorten('good  day', 20)")?;
    saved.greets("good day").await?;
    // What the guest can do without counts, and so does the order in which Python looks.
    save(
        "try:\n    import colorsys\n    WORD = colorsys.__name__\nexcept ImportError:\n    WORD = 'no'",
        "WORD",
    )?;
    saved.greets("colorsys").await?;
    ensure!(saved.is_of_base()?, "it is made of a base");

    fs::write(saved.folder.join("word.txt"), "hi")?;
    let beside = "import pathlib\nBESIDE = pathlib.Path(__file__).with_name('word.txt')\n";
    for (more, word) in [
        ("WORD = BESIDE.read_text()", "hi"),
        ("WORD = 'hey' if BESIDE.is_file() else 'no'", "hey"),
        ("print('imported')\nWORD = 'hullo'", "hullo"),
    ] {
        save(&format!("{beside}{more}"), "WORD")?;
        saved.greets(word).await?;
        ensure!(!saved.is_of_base()?, "{word}: it is made from nothing");
    }
    saved.end().await
}

/// A module, an export and an import of another world. A module that awaits something works all the same, and what fails a build fails here.
#[tokio::test]
async fn saves_of_a_guest_in_javascript_may_do_all_that_a_build_may() -> Result<()> {
    if !has_tools(
        languages::JAVASCRIPT.tools,
        "saves of a guest in JavaScript",
    ) {
        return Ok(());
    }
    let mut saved = Saved::start(&languages::JAVASCRIPT, "javascript-base").await?;
    let save = |more: &str, word: &str| {
        let (greeting, kind) = ("hello, ", "const ConfigMap = ");
        let (word, more) = (format!("${{{word}}}, "), format!("{more}\n{kind}"));
        saved.save(&[(greeting, &word), (kind, &more)])
    };
    fs::write(
        saved.folder.join("src/word.js"),
        "export const WORD = 'ahoy';\n",
    )?;
    save("import { WORD } from './word.js';", "WORD")?;
    saved.greets("ahoy").await?;
    // A module is strict also without jsconfig.json.
    fs::remove_file(saved.folder.join("jsconfig.json"))?;
    let strict = "let WORD = 'strict'; try { undeclared = 1; WORD = 'sloppy'; } catch {}";
    save(strict, "WORD")?;
    saved.greets("strict").await?;
    ensure!(saved.is_of_base()?, "it is made of a base");

    // The mapper does what `controller-owner` did: it repairs what is deleted.
    let mapper = "import { defineMapper } from 'windlass-sdk';\nimport * as fleet from 'windlass-sdk/fleet';\n        export const mapper = defineMapper((cluster, kind, objects) => objects.flatMap(({ metadata }) =>\n        \x20 (metadata.ownerReferences ?? []).map(({ name }) => ({ namespace: metadata.namespace, name }))));\n        const ConfigMap = ";
    let config = saved.folder.join("windlass.yaml");
    let rules = fs::read_to_string(&config)?;
    let opened = rules.replace(
        "namespaces: [\"*\"]",
        "namespaces: [\"*\"], clusters: {names: [\"*\"]}",
    );
    fs::write(&config, opened)?;
    saved.save(&[
        ("hello, ", "of ${fleet.clusters().length}, "),
        ("const ConfigMap = ", mapper),
        ("'controller-owner'", "'mapped'"),
    ])?;
    saved.greets("of 3").await?;
    saved.alpha.delete("crew-greeting").await?;
    saved.greets("of 3").await?;
    ensure!(saved.is_of_base()?, "it is made of a base");

    for more in [
        "const WORD = await Promise.resolve('late');",
        "const WORD = typeof import.meta === 'object' ? 'late' : 'no';",
    ] {
        saved.save(&[])?;
        saved.greets("hello").await?;
        save(more, "WORD")?;
        saved.greets("late").await?;
        ensure!(!saved.is_of_base()?, "{more}: it is made from nothing");
    }
    // A build has no host.
    save("log.info('loaded');", "'no'")?;
    saved.dev.line_with("build failed", BUILD).await?;
    saved.end().await
}
