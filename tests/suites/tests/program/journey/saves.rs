//! `dev` makes guests in Python and JavaScript of a base, whatever a save brings. `build` makes the component from nothing.

use super::Journey;
use super::served::Serving;
use crate::languages::BUILD;
use anyhow::{Result, ensure};
use std::fs;
use windlass_harness::eventually::{Seen, eventually};

/// A mapper that does what `controller-owner` does: it repairs what is deleted. It also needs other clusters.
const MAPPER: &str = "\
import { defineMapper } from 'windlass-sdk';
import * as fleet from 'windlass-sdk/fleet';
export const mapper = defineMapper((cluster, kind, objects) => objects.flatMap(({ metadata }) =>
  (metadata.ownerReferences ?? []).map(({ name }) => ({ namespace: metadata.namespace, name }))));
const ConfigMap = ";

impl Journey {
    /// A module, and imports that the base lacks and the module can do without. A module that does more than the base can, such as to read
    /// a file and to print while it is imported, works all the same.
    pub(super) async fn saves_python(&self, dev: &Serving) -> Result<()> {
        let save = |more: &str, word: &str| {
            let (greeting, import) = ("hello, {who}", "from windlass import (");
            let (word, more) = (format!("{{{word}}}, {{who}}"), format!("{more}\n{import}"));
            self.save_greeter(&[(greeting, &word), (import, &more)])
        };
        fs::create_dir(self.folder.join("words"))?;
        fs::write(self.folder.join("words/greet.py"), "WORD = 'ahoy'\n")?;
        // What the guest can do without counts, and so does the order in which Python looks.
        save(
            "from words.greet import WORD\ntry:\n    import colorsys\n    import pathlib\n    MORE = colorsys.__name__\n\
             except ImportError:\n    MORE = 'no'\nWORDS = f'{WORD} {MORE}'",
            "WORDS",
        )?;
        dev.greets("ahoy colorsys").await?;
        ensure!(self.is_of_base()?, "it is made of a base");

        // A base that could not look at files would say that there is none.
        fs::write(self.folder.join("word.txt"), "hey")?;
        let beside = "import pathlib\nBESIDE = pathlib.Path(__file__).with_name('word.txt')\n\
            print('imported')\nWORD = BESIDE.read_text() if BESIDE.is_file() else 'no'";
        save(beside, "WORD")?;
        dev.greets("hey").await?;
        ensure!(!self.is_of_base()?, "it is made from nothing");
        Ok(())
    }

    /// A module, an export and an import of another world. A module that awaits something works all the same, and what fails a build fails
    /// here.
    pub(super) async fn saves_javascript(&self, dev: &mut Serving) -> Result<()> {
        let save = |more: &str, word: &str| {
            let (greeting, kind) = ("hello, ", "const ConfigMap = ");
            let (word, more) = (format!("${{{word}}}, "), format!("{more}\n{kind}"));
            self.save_greeter(&[(greeting, &word), (kind, &more)])
        };
        let module = "export const WORD = 'ahoy';\n";
        fs::write(self.folder.join("src/word.js"), module)?;
        save("import { WORD } from './word.js';", "WORD")?;
        dev.greets("ahoy").await?;
        // A module is strict also without jsconfig.json.
        fs::remove_file(self.folder.join("jsconfig.json"))?;
        let strict = "let WORD = 'strict'; try { undeclared = 1; WORD = 'sloppy'; } catch {}";
        save(strict, "WORD")?;
        dev.greets("strict").await?;
        ensure!(self.is_of_base()?, "it is made of a base");

        let opened = self.documents.replace(
            "namespaces: [\"*\"]",
            "namespaces: [\"*\"], clusters: {names: [\"*\"]}",
        );
        fs::write(self.folder.join("windlass.yaml"), opened)?;
        self.save_greeter(&[
            ("hello, ", "of ${fleet.clusters().length}, "),
            ("const ConfigMap = ", MAPPER),
            ("'controller-owner'", "'mapped'"),
        ])?;
        dev.greets("of 3").await?;
        dev.alpha.delete("crew-greeting").await?;
        dev.greets("of 3").await?;
        ensure!(self.is_of_base()?, "it is made of a base");

        let late =
            "const WORD = await Promise.resolve(typeof import.meta === 'object' ? 'late' : 'no');";
        save(late, "WORD")?;
        dev.greets("late").await?;
        ensure!(!self.is_of_base()?, "it is made from nothing");
        // A build has no host.
        let mark = dev.program.line_count();
        save("log.info('loaded');", "'no'")?;
        dev.program
            .line_with_from(mark, "build failed", BUILD)
            .await?;
        self.save(&self.greeter)?;
        dev.greets("hello").await
    }

    /// `dev` that begins with a kept component, which needs no base, makes the base meanwhile: the first save does not wait for it.
    pub(super) async fn has_a_base_at_once(&self) -> Result<()> {
        let base = self.folder.join(".windlass/build/python-base");
        let kept = self.component()?;
        drop(fs::remove_dir_all(&base));
        let dev = Serving::start(self).await?;
        let made = base.join("guest.wasm");
        eventually(BUILD, "the base", || async {
            Ok(Seen::of(made.is_file(), |is_there| *is_there))
        })
        .await?;
        ensure!(kept == self.component()?, "nothing was saved");
        dev.end().await
    }

    /// What `build` makes is published, and is never made of the base.
    pub(super) async fn builds_without_a_base(&self) -> Result<()> {
        ensure!(self.is_of_base()?, "`dev` made it of a base");
        match self.walk.language.lang {
            "python" => self.has_packages().await?,
            _ => drop(self.build().await?),
        }
        ensure!(!self.is_of_base()?, "no base is in what is published");
        Ok(())
    }
}
