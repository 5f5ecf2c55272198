//! `windlass types`: what it writes compiles in each language, and objects survive being read and written. C is in `types_in_c.rs`.

use crate::languages::{VENV, has_tools, kept};
use crate::project::Project;
use crate::running::SOON;
use anyhow::{Context, Result, ensure};
use serde_json::{Value as Json, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;
use windlass_harness::program::Program;
use windlass_harness::testenv::crds::ClusterApi;
use windlass_harness::testenv::{self, Environment, Spec};

/// A build of the SDK.
const BUILD: Duration = Duration::from_secs(600);

/// A definition with what schemas can have, and names that languages have for themselves.
fn odd() -> Json {
    let text = json!({"type": "string"});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer", "format": "int32"}, "target": {"x-kubernetes-int-or-string": true}}});
    let solver = json!({"type": "object", "properties": {
        "dns": {"type": "object", "properties": {"zone": text}}, "http": {"type": "object", "properties": {"path": text}}},
        "oneOf": [{"required": ["dns"]}, {"required": ["http"]}]});
    let spec = json!({"type": "object", "description": "What is asked for.\nIn */ two lines.", "required": ["host", "class"], "properties": {
        "host": {"type": "string", "description": "The \"host\"."},
        "class": {"type": "string", "enum": ["a'b", "plain", ""]},
        "type": text, "self": text, "x-y": text, "$ref": text, "2nd": text, "__dunder": text, "fooBar": text, "foo_bar": text,
        "rest": text, "metadata": text, "kind": text, "yield": text,
        "replicas": {"type": "integer", "default": 1},
        "ratio": {"type": "number", "nullable": true},
        "limit": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "ports": {"type": "array", "items": port},
        "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "labels": {"type": "object", "additionalProperties": text},
        "byName": {"type": "object", "additionalProperties": port},
        "solver": solver,
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": text}},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "empty": {"type": "object", "properties": {}},
        "on": {"type": "boolean"},
    }});
    let status =
        json!({"type": "object", "nullable": true, "properties": {"ready": {"type": "boolean"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "odds.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Odd", "plural": "odds"}, "versions": [
            {"name": "v1alpha1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "description": "An odd kind.", "required": ["spec"], "properties": {
                "apiVersion": text, "kind": text, "metadata": {"type": "object"}, "spec": spec, "status": status}}}},
        ]},
    })
}

/// An object with every field of [`odd`], and with some that its schema does not have.
pub(crate) fn object() -> Json {
    json!({
        "apiVersion": "example.com/v1", "kind": "Odd",
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {
            "host": "h", "class": "a'b", "type": "t", "self": "s", "x-y": "x", "$ref": "r", "2nd": "2", "__dunder": "d",
            "fooBar": "1", "foo_bar": "2", "rest": "r", "metadata": "m", "kind": "k", "yield": "y", "replicas": 3, "ratio": 0.5,
            "limit": "50%", "ports": [{"port": 80, "target": "web", "later": true}, {"port": 81, "target": 8081}],
            "matrix": [[0.5], [2.25, 3.5]], "labels": {"c": "d"}, "byName": {"one": {"port": 1}}, "solver": {"dns": {"zone": "z"}},
            "free": {"x": [1, {"y": null}]}, "open": {"known": "k", "other": 9_223_372_036_854_775_807_i64}, "any": [1, "2"],
            "empty": {}, "on": false, "new": {"deep": [1]},
        },
        "status": {"ready": true, "new": 1},
        "later": {"x": 1},
    })
}

/// Built-in kinds, of which one is a part of itself.
const BUILT_IN: [&str; 4] = [
    "v1/Pod",
    "v1/ConfigMap",
    "apps/v1/Deployment",
    "apiextensions.k8s.io/v1/CustomResourceDefinition",
];

/// Writes the types of the odd kind into a folder; with real servers also of a large kind of others, and of built-in kinds.
pub(crate) async fn write(folder: &Path, language: &str) -> Result<()> {
    fs::write(folder.join("odd.crd.json"), odd().to_string())?;
    let mut args = vec!["types", "odd.crd.json", "--language", language];
    if testenv::enabled("types of the kind Cluster") {
        let cluster = serde_json::to_string(&ClusterApi::V1Beta2.definition()?)?;
        fs::write(folder.join("cluster.crd.json"), cluster)?;
        args.push("cluster.crd.json");
    }
    let said = Program::run(folder, args, SOON)
        .await?
        .expect_code(0)?
        .stdout;
    ensure!(said.contains("Odd: "), "{said}");
    describes(folder, language)?;
    if testenv::enabled("types of built-in kinds") {
        write_built_in(folder, language).await?;
    }
    Ok(())
}

/// The written types have the descriptions of the schema.
fn describes(folder: &Path, language: &str) -> Result<()> {
    let file = match language {
        "typescript" => "odd.ts",
        "python" => "odd.py",
        "go" => "odd.go",
        "rust" => "src/odd.rs",
        _ => return Ok(()),
    };
    let text = fs::read_to_string(folder.join(file)).with_context(|| file.to_owned())?;
    for described in ["What is asked for.", "The \"host\"."] {
        ensure!(text.contains(described), "{described} in {text}");
    }
    Ok(())
}

async fn write_built_in(folder: &Path, language: &str) -> Result<()> {
    let servers = Environment::start([Spec::new("alpha")]).await?;
    let kubeconfig = folder.join("alpha.kubeconfig");
    servers.server("alpha").write_kubeconfig(&kubeconfig)?;
    // The current context leads nowhere.
    let config = fs::read_to_string(&kubeconfig)?;
    let mut config: Json = serde_saphyr::from_str(&config)?;
    let context = config["current-context"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    config["current-context"] = "nowhere".into();
    fs::write(&kubeconfig, config.to_string())?;
    let kubeconfig = kubeconfig.display().to_string();
    let mut args = vec!["types", "--language", language, "--kubeconfig", &kubeconfig];
    args.extend(["--context", &context]);
    args.extend(BUILT_IN.iter().flat_map(|kind| ["--kind", kind]));
    let said = Program::run(folder, args.clone(), SOON).await?;
    let said = said.expect_code(0)?.stdout;
    ensure!(said.contains("Deployment: "), "{said}");
    args.extend(["--kind", "apps/v1/Deploiment"]);
    let refused = Program::run(folder, args, SOON).await?;
    let refused = refused.expect_code(1)?.stderr;
    ensure!(
        refused.contains("no schema of") && refused.contains("Deploiment"),
        "{refused}"
    );
    Ok(())
}

pub(crate) async fn succeeds<A: AsRef<OsStr>>(
    folder: &Path,
    program: &str,
    args: &[A],
) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).kill_on_drop(true);
    let output = tokio::time::timeout(BUILD, command.output()).await??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    ensure!(output.status.success(), "{program}: {said}");
    Ok(said)
}

fn sdk(language: &str) -> PathBuf {
    windlass_harness::repository()
        .join("guest-sdk")
        .join(language)
}

/// The compiler of TypeScript, and a project for it that has the SDK. None, if it is not here.
fn typescript(what: &str) -> Result<Option<(String, Project)>> {
    let repository = windlass_harness::repository();
    let tsc = repository.join("guests/js/node_modules/.bin/tsc");
    if !has_tools(&["npm"], what) || !tsc.exists() {
        ensure!(
            std::env::var(testenv::VARIABLE).is_err(),
            "./test installs tsc"
        );
        return Ok(None);
    }
    let project = Project::new()?;
    let of_sdk = |file: &str| [sdk("js").join("types").join(file)];
    let config = json!({
        "compilerOptions": {
            "strict": true, "noEmit": true, "module": "esnext", "moduleResolution": "bundler", "target": "es2022", "types": [],
            "paths": {"windlass-sdk": of_sdk("index.d.ts"), "windlass-sdk/fleet": of_sdk("fleet.d.ts")},
        },
        "include": ["*.ts"],
    });
    project.write("tsconfig.json", config.to_string())?;
    Ok(Some((tsc.display().to_string(), project)))
}

#[tokio::test]
async fn the_programs_of_the_recipes_are_programs() -> Result<()> {
    let Some((tsc, project)) = typescript("the programs of docs/recipes.md")? else {
        return Ok(());
    };
    let page = fs::read_to_string(windlass_harness::repository().join("docs/recipes.md"))?;
    let blocks = page.split("```ts\n").skip(1);
    let programs: Vec<&str> = blocks
        .filter_map(|block| block.split("```").next())
        .collect();
    ensure!(programs.len() >= 4, "programs are in blocks of ts");
    for (number, program) in programs.into_iter().enumerate() {
        project.write(&format!("recipe{number}.ts"), program)?;
    }
    succeeds(project.path(), &tsc, &["-p", "."]).await?;
    Ok(())
}

#[tokio::test]
async fn types_in_typescript_are_checked_where_they_are_used() -> Result<()> {
    let Some((tsc, project)) = typescript("types in TypeScript")? else {
        return Ok(());
    };
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

#[tokio::test]
async fn a_type_error_in_typescript_fails_the_build_with_its_line() -> Result<()> {
    if !has_tools(&["npm"], "types in a build") {
        return Ok(());
    }
    let project = Project::new()?;
    let new = ["new", "odd", "--lang", "typescript"];
    Program::run(project.path(), new, SOON)
        .await?
        .expect_code(0)?;
    let folder = project.path().join("odd");
    write(&folder, "typescript").await?;
    let used =
        "import { Odd } from '../odd';\nexport const host = (odd: Odd): string => odd.spec.host;\n";
    let reconciler = fs::read_to_string(folder.join("src/reconciler.ts"))?;
    let file = folder.join("src/use.ts");
    fs::write(&file, used)?;
    fs::write(
        folder.join("src/reconciler.ts"),
        format!("import './use';\n{reconciler}"),
    )?;
    let build = async || Program::run(&folder, ["build"], BUILD).await;
    build().await?.expect_code(0)?;
    fs::write(&file, used.replace("spec.host", "spec.hots"))?;
    let said = build().await?.expect_code(1)?.stderr;
    assert!(
        said.contains("src/use.ts(2,") && said.contains("hots"),
        "{said}"
    );
    Ok(())
}

/// An environment with mypy, which is kept for the next run.
async fn with_mypy(folder: &Path) -> Result<PathBuf> {
    const MYPY: &str = "mypy==1.19.1";
    let venv = kept("venv").join(MYPY);
    // A link that leads nowhere after an update of Python.
    if !(venv.join("bin/python").is_file() && venv.join("bin/mypy").is_file()) {
        let path = venv.display().to_string();
        succeeds(folder, "python3", &["-m", "venv", "--clear", &path]).await?;
        let python = venv.join("bin/python").display().to_string();
        succeeds(folder, &python, &["-m", "pip", "install", "--quiet", MYPY]).await?;
    }
    Ok(venv)
}

#[tokio::test]
async fn a_type_error_in_python_fails_the_build_with_its_line() -> Result<()> {
    if !has_tools(&["python3", VENV], "types in a build in Python") {
        return Ok(());
    }
    let project = Project::new()?;
    let new = ["new", "odd", "--lang", "python"];
    Program::run(project.path(), new, SOON)
        .await?
        .expect_code(0)?;
    let folder = project.path().join("odd");
    write(&folder, "python").await?;
    let unchecked = Program::run(&folder, ["build"], BUILD).await?;
    let said = unchecked.expect_code(0)?.stderr;
    assert!(said.contains("types are not checked"), "{said}");
    std::os::unix::fs::symlink(with_mypy(&folder).await?, folder.join(".venv"))?;
    let used =
        "from odd import Odd\n\ndef host(odd: Odd) -> str:\n    return odd[\"spec\"][\"host\"]\n";
    let file = folder.join("use.py");
    fs::write(&file, used)?;
    let build = async || Program::run(&folder, ["build"], BUILD).await;
    build().await?.expect_code(0)?;
    fs::write(&file, used.replace("host\"]", "hots\"]"))?;
    let said = build().await?.expect_code(1)?.stderr;
    assert!(
        said.contains("use.py:4: error:") && said.contains("hots"),
        "{said}"
    );
    // So is the folder of a guest in the package.
    fs::create_dir(folder.join("part"))?;
    fs::write(folder.join("part/guest.py"), "NUMBER: int = 'seven'\n")?;
    let part = Program::run(&folder, ["build", "part"], BUILD).await?;
    let said = part.expect_code(1)?.stderr;
    assert!(said.contains("part/guest.py:1: error:"), "{said}");
    Ok(())
}

#[tokio::test]
async fn types_in_python_are_types() -> Result<()> {
    if !has_tools(&["python3"], "types in Python") {
        return Ok(());
    }
    let project = Project::new()?;
    write(project.path(), "python").await?;
    let check = "import typing, odd, importlib.util\n\
        only_for_checkers = {'NotRequired': typing.Optional}\n\
        if importlib.util.find_spec('cluster'):\n    import cluster\n    typing.get_type_hints(cluster.ClusterSpec, None, only_for_checkers)\n\
        \x20   import deployment, pod, config_map, custom_resource_definition\n\
        \x20   assert 'containers' in deployment.DeploymentPodSpec.__required_keys__\n\
        \x20   typing.get_type_hints(deployment.DeploymentPodSpec, None, only_for_checkers)\n\
        all = {name: it for name, it in vars(odd).items() if typing.is_typeddict(it)}\n\
        for it in all.values():\n    typing.get_type_hints(it, None, only_for_checkers)\n\
        assert odd.ODD == 'example.com/v1/Odd'\n\
        assert {'Odd', 'OddSpec', 'OddSpecPorts', 'OddSpecSolverDns'} <= set(all), all\n\
        assert set(odd.OddSpec.__annotations__) >= {'x-y', 'class', '2nd', '__dunder', 'host'}\n";
    succeeds(project.path(), "python3", &["-W", "error", "-c", check]).await?;
    Ok(())
}

/// Kinds of others in Rust.
const OTHERS: &str = "pub mod cluster;\npub mod config_map;\npub mod custom_resource_definition;\npub mod deployment;\npub mod pod;\n\
    #[test]\nfn built_in() {\n    let text = include_str!(\"../deployment.json\");\n    \
    let deployment: deployment::Deployment = serde_json::from_str(text).unwrap();\n    \
    let spec = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();\n    \
    assert_eq!(spec.containers[0].name, \"web\");\n    \
    let mut whole: serde_json::Value = serde_json::from_str(text).unwrap();\n    \
    whole.as_object_mut().unwrap().retain(|name, _| name != \"apiVersion\" && name != \"kind\");\n    \
    assert_eq!(serde_json::to_value(&deployment).unwrap(), whole);\n}\n";

fn deployment() -> Json {
    let container = json!({"name": "web", "image": "nginx", "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
        "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "futureField": 1}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}},
    })
}

#[tokio::test]
async fn objects_survive_types_in_rust() -> Result<()> {
    let target = windlass_harness::repository().join("target/tmp/types");
    let project = Project::new()?;
    fs::create_dir_all(project.path().join("src"))?;
    write(project.path(), "rust").await?;
    let manifest = format!(
        "[package]\nname = \"odd\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         windlass-sdk = {{ path = {:?} }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\nserde_json = \"1\"\n",
        sdk("rust")
    );
    project.write("Cargo.toml", manifest)?;
    fs::copy(
        windlass_harness::repository().join("Cargo.lock"),
        project.path().join("Cargo.lock"),
    )?;
    project.write("object.json", object().to_string())?;
    let has_cluster = project.path().join("src/cluster.rs").exists();
    let others = match has_cluster {
        true => OTHERS,
        false => "",
    };
    let lib = "#![deny(warnings, missing_docs)]\n//! Odd.\npub mod odd;\n#[test]\nfn survives() {\n    \
        let text = include_str!(\"../object.json\");\n    let mut odd: odd::Odd = serde_json::from_str(text).unwrap();\n    \
        let mut whole: serde_json::Value = serde_json::from_str(text).unwrap();\n    \
        odd.spec.host = \"other\".to_owned();\n    whole[\"spec\"][\"host\"] = \"other\".into();\n    \
        whole.as_object_mut().unwrap().retain(|name, _| name != \"apiVersion\" && name != \"kind\");\n    \
        assert_eq!((&*odd.kind, serde_json::to_value(&odd).unwrap()), (\"Odd\", whole));\n}\n";
    project.write("deployment.json", deployment().to_string())?;
    project.write("src/lib.rs", lib.to_owned() + others)?;
    let target = target.display().to_string();
    let args = ["test", "--quiet", "--target-dir", &target];
    succeeds(project.path(), "cargo", &args).await?;
    Ok(())
}

#[tokio::test]
async fn objects_survive_types_in_go() -> Result<()> {
    if !has_tools(&["go"], "types in Go") {
        return Ok(());
    }
    let project = Project::new()?;
    write(project.path(), "go").await?;
    let version = fs::read_to_string(sdk("go").join("go.mod"))?;
    let version = version.lines().find(|line| line.starts_with("go "));
    let module = format!(
        "module odd\n\n{}\n\nrequire windlass.dev/windlass v0.0.0\n\nreplace windlass.dev/windlass => {}\n",
        version.context("a version")?,
        sdk("go").display()
    );
    project.write("go.mod", module)?;
    fs::write(
        project.path().join("go.sum"),
        fs::read(sdk("go").join("go.sum")).unwrap_or_default(),
    )?;
    project.write("main.go", "package main\n\nfunc main() {}\n")?;
    project.write("object.json", object().to_string())?;
    let mut changed = object();
    changed["spec"]["host"] = "other".into();
    changed["spec"]["ports"][1]["port"] = 8443.into();
    project.write("changed.json", changed.to_string())?;
    let test = r#"package main

import (
	_ "embed"
	"encoding/json"
	"testing"

	"windlass.dev/windlass"
	"windlass.dev/windlass/windlasstest"
)

//go:embed object.json
var read string

//go:embed changed.json
var changed string

func object(t *testing.T, text string) (object windlass.Object) {
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestSurvives(t *testing.T) {
	key := windlass.ObjectKey{Namespace: "default", Name: "a"}
	cluster := windlasstest.New(t).Cluster("c")
	cluster.ExpectGet(Odd{}.GVK(), key).Return(object(t, read))
	cluster.ExpectUpdate(object(t, changed)).Return(object(t, changed))
	odd, err := windlass.Get[Odd](cluster.Client(), key)
	if err != nil {
		t.Fatal(err)
	}
	odd.Spec.Host = "other"
	odd.Spec.Ports[1].Port = 8443
	if _, err := windlass.Update(cluster.Client(), odd); err != nil {
		t.Fatal(err)
	}
}
"#;
    project.write("odd_test.go", test)?;
    let unformatted = succeeds(project.path(), "gofmt", &["-l", "odd.go"]).await?;
    ensure!(unformatted.is_empty(), "{unformatted}");
    succeeds(project.path(), "go", &["vet", "./..."]).await?;
    succeeds(project.path(), "go", &["test", "./..."]).await?;
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
