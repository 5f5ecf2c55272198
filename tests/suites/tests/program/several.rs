//! Several guests in one project, in each language: they share its packages and its SDK, and each is built and replaced for itself.

use crate::languages::{VENV, command, has_tools, windlass};
use crate::objects::ConfigMaps;
use crate::project::Project;
use anyhow::{Context, Result};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::{Program, binary};

/// Toolchains come from registries the first time.
const BUILD: Duration = Duration::from_secs(900);
const SOON: Duration = Duration::from_secs(60);

/// A second guest in a project of `windlass new`.
struct Second {
    lang: &'static str,
    tools: &'static [&'static str],
    /// The files of the first guest that become files of the second one, in a folder of its own.
    files: &'static [(&'static str, &'static str)],
    /// The file of the second guest that greets.
    source: &'static str,
}

#[tokio::test]
async fn a_project_in_rust_has_several_guests() -> Result<()> {
    several(Second {
        lang: "rust",
        tools: &["cargo"],
        files: &[
            ("Cargo.toml", "Cargo.toml"),
            ("src/lib.rs", "src/lib.rs"),
            ("src/tests.rs", "src/tests.rs"),
        ],
        source: "src/lib.rs",
    })
    .await
}

#[tokio::test]
async fn a_project_in_typescript_has_several_guests() -> Result<()> {
    several(Second {
        lang: "typescript",
        tools: &["npm"],
        files: &[("src/reconciler.ts", "guest.ts")],
        source: "guest.ts",
    })
    .await
}

#[tokio::test]
async fn a_project_in_python_has_several_guests() -> Result<()> {
    several(Second {
        lang: "python",
        tools: &["python3", VENV],
        files: &[("guest.py", "guest.py")],
        source: "guest.py",
    })
    .await
}

#[tokio::test]
async fn a_project_in_go_has_several_guests() -> Result<()> {
    several(Second {
        lang: "go",
        tools: &["go"],
        files: &[("main.go", "main.go")],
        source: "main.go",
    })
    .await
}

#[tokio::test]
async fn a_project_in_c_has_several_guests() -> Result<()> {
    several(Second {
        lang: "c",
        tools: &["cc", "make", "python3", VENV],
        files: &[("guest.c", "guest.c"), ("windlass.toml", "windlass.toml")],
        source: "guest.c",
    })
    .await
}

#[tokio::test]
async fn two_programs_in_one_folder_do_no_harm_to_each_other() -> Result<()> {
    if !has_tools(
        &["cc", "make", "python3", VENV],
        "two programs in one folder",
    ) {
        return Ok(());
    }
    let outside = Project::new()?;
    windlass(outside.path(), ["new", "demo", "--lang", "c"])
        .await?
        .expect_code(0)?;
    let folder = outside.path().join("demo");
    // Somebody has the admin address.
    let other = TcpListener::bind("127.0.0.1:0")?;
    let manager = format!(
        "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {{name: manager}}\nspec: {{admin: {{address: {:?}}}}}\n",
        other.local_addr()?.to_string()
    );
    let documents = folder.join("windlass.yaml");
    fs::write(&documents, fs::read_to_string(&documents)? + &manager)?;
    let mut running = Vec::new();
    for kubeconfig in ["kubeconfig", "kubeconfig-2"] {
        let mut program = Program::spawn(command(&folder, binary()?, ["dev"]))?;
        program.line_with("admin endpoints", BUILD).await?;
        let taken = "the admin address is taken, a free port is used";
        program.line_with(taken, SOON).await?;
        let kubeconfig = folder.join(".windlass").join(kubeconfig);
        let maps = ConfigMaps::in_context(&kubeconfig, "alpha").await?;
        maps.expect_greeting("crew", Some("hello, world, from alpha"))
            .await?;
        running.push((program, maps));
    }
    // A save reaches both, and neither reads what the other one is building.
    let source = folder.join("guest.c");
    let text = fs::read_to_string(&source)?;
    fs::write(&source, text.replace("hello, ", "welcome, "))?;
    for (_, maps) in &running {
        maps.expect_greeting("crew", Some("welcome, world, from alpha"))
            .await?;
    }
    // Each has clusters of its own, and goes on without the other.
    let (first, _) = running.remove(0);
    first.signal("TERM")?;
    first.wait(SOON).await?.expect_code(0)?;
    let (second, maps) = running.remove(0);
    maps.ask("late", "moon").await?;
    maps.expect_greeting("late", Some("welcome, moon, from alpha"))
        .await?;
    second.signal("TERM")?;
    second.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

async fn several(second: Second) -> Result<()> {
    let what = format!("several guests in {}", second.lang);
    if !has_tools(second.tools, &what) {
        return Ok(());
    }
    let outside = Project::new()?;
    windlass(outside.path(), ["new", "demo", "--lang", second.lang])
        .await?
        .expect_code(0)?;
    let folder = outside.path().join("demo");
    add(&folder, &second)?;

    let args = ["dev", "--admin", "127.0.0.1:0"];
    let mut program = Program::spawn(command(&folder, binary()?, args))?;
    program.line_with("admin endpoints", BUILD).await?;
    let kubeconfig = folder.join(".windlass/kubeconfig");
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
    if second.lang == "python" {
        // It has all of CPython, so that it takes a while.
        let line = program.line_with("the guest is compiled", SOON).await?;
        assert!(line.contains("seconds"), "{line}");
    }

    let source = folder.join("second").join(second.source);
    let text = fs::read_to_string(&source)?;
    fs::write(&source, text.replace("good day, ", "welcome, "))?;
    greeted("beta", "welcome").await?;
    greeted("alpha", "hello").await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    if second.lang == "typescript" {
        fs::write(
            &source,
            format!("{text}\nexport const wrong: number = 'a text'\n"),
        )?;
        let built = windlass(&folder, ["build", "second"]).await?;
        let said = built.expect_code(1)?;
        let said = format!("{}{}", said.stdout, said.stderr);
        assert!(
            said.contains("second/guest.ts(") && said.contains("TS2322"),
            "{said}"
        );
    }
    Ok(())
}

/// The second guest has a module of its own folder.
fn import_a_module_beside(folder: &Path, second: &Second) -> Result<()> {
    let own = folder.join("second");
    fs::write(own.join("beside.py"), "NUMBER: int = 1\n")?;
    let source = own.join(second.source);
    let text = fs::read_to_string(&source)?;
    let text = text + "\nfrom beside import NUMBER\n\nassert NUMBER == 1\n";
    Ok(fs::write(source, text)?)
}

/// Adds a guest that greets with other words, and Reconcilers: the first one works in alpha, the one of the other guest in beta, and
/// another one of the first guest's folder in gamma.
fn add(folder: &Path, second: &Second) -> Result<()> {
    for (of, name) in second.files {
        let text = fs::read_to_string(folder.join(of)).with_context(|| format!("read {of}"))?;
        let path = folder.join("second").join(name);
        fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        fs::write(path, text.replace("hello, ", "good day, "))?;
    }
    match second.lang {
        "rust" => make_member(folder)?,
        "python" => import_a_module_beside(folder, second)?,
        _ => (),
    }
    let config = folder.join("windlass.yaml");
    let text = fs::read_to_string(&config)?;
    let (provider, first) = text.split_once("---\n").context("two documents")?;
    let in_cluster = |document: &str, cluster: &str| {
        let guest = format!("  clusters: {{names: [{cluster}]}}\n  guest:");
        document.replace("  guest:", &guest)
    };
    let other = first
        .replace("{name: \"demo\"}", "{name: second}")
        .replace("{path: .}", "{path: ./second}");
    let again = in_cluster(first, "gamma").replace("{name: \"demo\"}", "{name: again}");
    let (first, other) = (in_cluster(first, "alpha"), in_cluster(&other, "beta"));
    fs::write(
        config,
        format!("{provider}---\n{first}---\n{other}---\n{again}"),
    )?;
    Ok(())
}

/// Makes the second guest a member of the workspace of the first one.
fn make_member(folder: &Path) -> Result<()> {
    let root = folder.join("Cargo.toml");
    let text = fs::read_to_string(&root)?;
    let members = "[workspace]\nmembers = [\"second\"]\n";
    fs::write(&root, text.replace("[workspace]\n", members))?;
    let member = folder.join("second/Cargo.toml");
    let text = fs::read_to_string(&member)?;
    let own = text.split("# Small").next().unwrap_or(&text);
    let own = own
        .replace("\"demo\"", "\"second\"")
        .replace("\"sdk\"", "\"../sdk\"");
    fs::write(member, own)?;
    Ok(())
}
