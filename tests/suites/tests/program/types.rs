//! `windlass types` and what checks its types in each language. Objects of these types are in `types_kept.rs`, C is in `types_in_c.rs`.

use crate::languages::windlass;
use crate::project::Project;
use crate::running::SOON;
use crate::types_written::{odd, sdk, succeeds, write};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::fs;
use windlass_harness::program::Program;

/// The compiler of TypeScript, which `./test` installs, and a project for it that has the SDK.
pub(crate) fn typescript() -> Result<(String, Project)> {
    let repository = windlass_harness::repository();
    let tsc = repository.join("guests/js/node_modules/.bin/tsc");
    let project = Project::new()?;
    let of_sdk = |file: &str| [sdk("js").join("types").join(file)];
    let config = json!({
        "compilerOptions": {
            "strict": true, "noEmit": true, "module": "esnext", "moduleResolution": "bundler", "target": "es2022", "lib": ["es2022"], "types": [],
            "paths": {
                "windlass-sdk": of_sdk("index.d.ts"), "windlass-sdk/fleet": of_sdk("fleet.d.ts"), "windlass-sdk/http": of_sdk("http.d.ts"),
                "windlass-sdk/testing": of_sdk("testing.d.ts"),
            },
        },
        "include": ["*.ts", sdk("js").join("types/globals.d.ts")],
    });
    project.write("tsconfig.json", config.to_string())?;
    Ok((tsc.display().to_string(), project))
}

#[tokio::test]
#[ignore = "needs real servers and other languages' tools"]
async fn types_in_typescript_are_checked_where_they_are_used() -> Result<()> {
    let (tsc, project) = typescript()?;
    write(project.path(), "typescript").await?;
    let good = "import type { Cluster } from 'windlass-sdk';\nimport { Odd } from './odd';\n\
        export function use(cluster: Cluster): number {\n  const odd = cluster.get(Odd, { name: 'a' });\n  if (!odd) return 0;\n\
          const port: number | string | undefined = odd.spec.ports?.[0]?.target;\n  odd.spec.class = 'plain';\n\
          return odd.spec.replicas + (odd.spec['x-y'] ?? '').length + (port === 1 ? 1 : 0);\n}\n";
    project.write("use.ts", good)?;
    succeeds(project.path(), &tsc, &["-p", "."]).await?;
    for (right, wrong) in [("'plain'", "'plane'"), ("spec.replicas", "spec.replica")] {
        project.write("use.ts", good.replace(right, wrong))?;
        let error = succeeds(project.path(), &tsc, &["-p", "."]).await;
        let error = error.err().context("a type error")?.to_string();
        ensure!(
            error.contains("use.ts(7,") || error.contains("use.ts(8,"),
            "{error}"
        );
    }
    Ok(())
}

/// A project of `new` knows what the engine of a component has, and its unit tests what Node.js has.
#[tokio::test]
#[ignore = "needs other languages' tools"]
async fn what_the_engine_does_not_have_is_a_type_error_in_typescript() -> Result<()> {
    let modules = windlass_harness::repository().join("guests/js/node_modules");
    let tsc = modules.join(".bin/tsc").display().to_string();
    let project = Project::new()?;
    let new = ["new", "guest", "--lang", "typescript"];
    windlass(project.path(), new).await?.expect_code(0)?;
    let folder = project.path().join("guest");
    std::os::unix::fs::symlink(&modules, folder.join("node_modules"))?;
    for config in ["tsconfig.json", "tsconfig.test.json"] {
        succeeds(&folder, &tsc, &["-p", config]).await?;
    }
    let source = folder.join("src/reconciler.ts");
    let right = fs::read_to_string(&source)?;
    fs::write(&source, format!("{right}\nconsole.info(atob('YQ=='));\n"))?;
    succeeds(&folder, &tsc, &["-p", "."]).await?;
    for wrong in [
        "fetch('https://a.b')",
        "process.exit()",
        "Buffer.from('a')",
        "setTimeout(() => {}, 1)",
        "new TextEncoder()",
        "new URL('https://a.b')",
        "document.title",
    ] {
        fs::write(&source, format!("{right}\n{wrong};\n"))?;
        let error = succeeds(&folder, &tsc, &["-p", "."]).await;
        let error = error.err().context(wrong)?.to_string();
        ensure!(error.contains("Cannot find name"), "{wrong}: {error}");
    }
    Ok(())
}

/// A build in Python checks its types, beside those of many kinds.
#[tokio::test]
#[ignore = "needs real servers and other languages' tools"]
async fn types_of_servers_objects_pass_a_build_in_python() -> Result<()> {
    let project = Project::new()?;
    let new = ["new", "odd", "--lang", "python"];
    windlass(project.path(), new).await?.expect_code(0)?;
    let folder = project.path().join("odd");
    write(&folder, "python").await?;
    fs::write(folder.join("kept.py"), include_str!("types_kept/kept.py"))?;
    windlass(&folder, ["build"]).await?.expect_code(0)?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs real servers and other languages' tools"]
async fn types_in_python_are_types() -> Result<()> {
    let project = Project::new()?;
    write(project.path(), "python").await?;
    // A stub is for checkers. Its classes may stand before those that they name.
    let check = "import __future__, pathlib, glob, sys, types, typing\n\
        from odd import ODD, Odd, OddSpec\n\
        import odd\n\
        assert ODD == 'example.com/v1/Odd' and Odd is dict and OddSpec(host='h') == {'host': 'h'}\n\
        assert 'OddSpec' not in vars(odd) and not hasattr(odd, '__path__'), 'the types are a part of the component'\n\
        sys.modules['typing_extensions'] = typing\n\
        only_for_checkers = {'NotRequired': typing.Optional}\n\
        modules = {}\n\
        for file in glob.glob('*.pyi'):\n\
        \x20   module = sys.modules[file[:-4]] = modules[file[:-4]] = types.ModuleType(file[:-4])\n\
        \x20   exec(compile(pathlib.Path(file).read_text(), file, 'exec', __future__.annotations.compiler_flag), vars(module))\n\
        if 'deployment' in modules:\n\
        \x20   assert {'cluster_class', 'issuer'} <= set(modules)\n\
        \x20   assert 'containers' in modules['deployment'].DeploymentPodSpec.__required_keys__\n\
        for module in modules.values():\n\
        \x20   for it in filter(typing.is_typeddict, vars(module).values()):\n\
        \x20       typing.get_type_hints(it, None, only_for_checkers)\n\
        odd = modules['odd']\n\
        all = {name: it for name, it in vars(odd).items() if typing.is_typeddict(it)}\n\
        assert {'Odd', 'OddSpec', 'OddSpecByName', 'OddSpecSolverDns'} <= set(all), all\n\
        assert set(odd.OddSpec.__annotations__) >= {'x-y', 'class', '2nd', '__dunder', 'host'}\n";
    succeeds(project.path(), "python3", &["-W", "error", "-c", check]).await?;
    Ok(())
}

#[tokio::test]
async fn what_has_no_types_is_told_and_nothing_of_the_author_is_overwritten() -> Result<()> {
    let project = Project::new()?;
    project.write("crd.json", odd().to_string())?;
    project.write(
        "map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    )?;
    project.write("go.mod", "module x\n")?;
    let run = async |args: &[&str]| -> Result<String> {
        let args = ["types"].iter().chain(args);
        let finished = Program::run(project.path(), args, SOON).await?;
        Ok(finished.expect_code(1)?.stderr)
    };
    for (args, part) in [
        (&["map.yaml"][..], "there is no CustomResourceDefinition"),
        (&["crd.json", "--api-version", "v2"], "it has v1alpha1, v1"),
        (&["no-such.yaml"], "no-such.yaml"),
        (&["crd.json", "--into", "no-such"], "no such folder"),
    ] {
        let said = run(args).await?;
        assert!(said.contains(part), "{part} in {said}");
    }
    // Its language is the guest's.
    let done = Program::run(project.path(), ["types", "crd.json"], SOON).await?;
    assert!(done.expect_code(0)?.stdout.contains("odd.go"));
    project.write("odd.go", "package main\n")?;
    let said = run(&["crd.json"]).await?;
    assert!(said.contains("was not written by windlass types"), "{said}");
    Ok(())
}

/// In Rust the types are a package, of which nothing is overwritten that another hand has written.
#[tokio::test]
async fn a_package_of_the_author_stays() -> Result<()> {
    let project = Project::new()?;
    project.write("crd.json", odd().to_string())?;
    project.write(
        "Cargo.toml",
        "[package]\nname = \"x\"\n\n[dependencies]\nwindlass-sdk = \"0.1\"\n",
    )?;
    let run =
        async || -> Result<_> { Program::run(project.path(), ["types", "crd.json"], SOON).await };
    let own = "//! Mine.\n";
    project.write("types/src/lib.rs", own)?;
    let said = run().await?.expect_code(1)?.stderr;
    assert!(said.contains("was not written by windlass types"), "{said}");
    let lib = project.path().join("types/src/lib.rs");
    assert_eq!(fs::read_to_string(&lib)?, own);
    fs::remove_file(&lib)?;
    project.write("types/src/notes.rs", own)?;
    run().await?.expect_code(0)?;
    let text = fs::read_to_string(&lib)?;
    assert!(text.ends_with("\npub mod odd;\n"), "{text}");
    Ok(())
}
