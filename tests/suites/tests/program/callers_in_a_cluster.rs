//! Who may call the API in a cluster: tokens and rights that a real server reviews, and commands that come through its proxy.

use crate::examples::{USER, allow, kubectl};
use crate::project::{Project, reconciler};
use crate::running::{Http, SOON, address_in};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube_client::Client;
use kube_client::api::{Api, DeleteParams, ListParams};
use serde_json::{Value as Json, json};
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::guests::guest;
use windlass_harness::program::{Finished, Program};
use windlass_harness::testenv::{Environment, Server, Spec};

pub(crate) const AUDIENCE: &str = "windlass.dev";
/// The pod that the process runs in, as far as its server knows.
pub(crate) const POD: &str = "windlass-0";
/// Whom the commands are of.
const PERSON: &str = "person";

/// A process that reviews tokens, with the rights that `windlass rbac` prints and no others.
pub(crate) struct Stage {
    environment: Environment,
    pub(crate) client: Client,
    pub(crate) project: Project,
    program: Program,
    http: Http,
}

impl Stage {
    async fn start() -> Result<Self> {
        Self::of(reconciler("hello", &guest("hello"))).await
    }

    /// Of the document of a Reconciler `hello`.
    pub(crate) async fn of(document: String) -> Result<Self> {
        let spec = Spec::new("alpha").with_user(USER).with_user(PERSON);
        let environment = Environment::start([spec]).await?;
        let server = environment.server("alpha");
        let project = Project::new()?;
        project.write("clusters/alpha.kubeconfig", server.kubeconfig())?;
        project.write("hub.kubeconfig", server.kubeconfig_of(USER))?;
        project.write("person.kubeconfig", server.kubeconfig_of(PERSON))?;
        write_in_parts(&project, &server.kubeconfig_of(PERSON))?;
        let manager = "---\napiVersion: windlass.dev/v1alpha1\nkind: Manager\nmetadata: {name: manager}\nspec:\n  \
             local: {kubeconfig: ./hub.kubeconfig}\n  admin: {authentication: TokenReview, metricsAuthentication: Token}\n  \
             leaderElection: {enabled: true, namespace: default}\n";
        project.write_config(&[manager.to_owned(), document])?;
        allow(&environment, &project, server, &["--local"], |roles| roles).await?;
        let args = ["run", "-f", "windlass.yaml", "--admin", "0.0.0.0:0"];
        let variables = [("POD_NAME", POD)];
        let mut program = Program::start_with(project.path(), args, &variables)?;
        let address = address_in(&program.line_with("admin endpoints", SOON).await?)?;
        let (_, port) = address.rsplit_once(':').context("a port")?;
        let http = Http {
            address: format!("127.0.0.1:{port}"),
        };
        let client = server.client().await?;
        callers(&environment, server, &project).await?;
        let stage = Self {
            client,
            program,
            http,
            project,
            environment,
        };
        stage.program_leads().await?;
        Ok(stage)
    }

    async fn program_leads(&self) -> Result<()> {
        eventually(SOON, "the process to lead", || async {
            let answer = self.http.get("/readyz?verbose").await?;
            Ok(Seen::of(answer, |(_, text)| {
                text.contains("this process leads")
            }))
        })
        .await
        .map(drop)
    }

    pub(crate) fn server(&self) -> &Server {
        self.environment.server("alpha")
    }

    pub(crate) fn kubectl(&self) -> PathBuf {
        self.environment.binaries().kubectl()
    }

    /// The port of the process.
    pub(crate) fn port(&self) -> Result<&str> {
        let (_, port) = self.http.address.rsplit_once(':').context("a port")?;
        Ok(port)
    }

    /// Creates objects.
    async fn apply(&self, objects: &Json) -> Result<()> {
        let args = ["apply", "-f", "-"];
        kubectl(
            &self.environment,
            self.server(),
            &args,
            &objects.to_string(),
        )
        .await
    }

    /// Creates the pod, at an address of this machine.
    pub(crate) async fn create_pod(&self) -> Result<()> {
        self.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": "default"},
            "spec": {"nodeName": "node", "containers": [{"name": "windlass", "image": "none"}]}}))
            .await?;
        let address = address_of_this_machine()?;
        let status =
            json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
        let status = status.to_string();
        let patch = ["patch", "pod", POD, "--subresource=status", "-p", &status];
        kubectl(&self.environment, self.server(), &patch, "").await
    }

    /// A new token of a service account.
    pub(crate) async fn token(&self, account: &str, audiences: &[&str]) -> Result<String> {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": audiences, "expirationSeconds": 600}});
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&body)?)?;
        let made: Json = serde_json::from_str(&self.client.request_text(request).await?)?;
        Ok(made["status"]["token"]
            .as_str()
            .context("a token")?
            .to_owned())
    }

    async fn get(&self, path: &str, token: &str) -> Result<(u16, String)> {
        let host = &self.http.address;
        let text =
            format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
        self.http.send(&text).await
    }

    async fn requeue(&self, token: &str) -> Result<(u16, String)> {
        let body = r#"{"key": "cluster://alpha/default/a", "reconciler": "hello"}"#;
        let (host, length) = (&self.http.address, body.len());
        let text = format!(
            "POST /api/v1/requeue HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.http.send(&text).await
    }

    /// Waits for a status of a read.
    async fn expect(&self, path: &str, token: &str, status: u16) -> Result<()> {
        let what = format!("{path} to be answered by {status}");
        eventually(SOON, &what, || async {
            Ok(Seen::of(self.get(path, token).await?, |seen| {
                seen.0 == status
            }))
        })
        .await
        .map(drop)
    }

    /// Waits for an Event that names a user.
    async fn audited(&self, reason: &str, user: &str) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        eventually(SOON, &format!("{reason} by {user}"), || async {
            let all = events.list(&ListParams::default()).await?.items;
            Ok(Seen::of(all, |all| {
                all.iter().any(|event| {
                    let message = event.message.as_deref().unwrap_or_default();
                    event.reason.as_deref() == Some(reason)
                        && message.starts_with(user)
                        && event.involved_object.name.as_deref() == Some("hello")
                })
            }))
        })
        .await
        .map(drop)
    }

    /// A command of the person, through the API server.
    async fn command(&self, args: &[&str]) -> Result<Finished> {
        let port = self.port()?;
        let usual = ["--kubeconfig", "person.kubeconfig", "--context", "alpha"];
        let place = ["-n", "default", "--port", port];
        let args = args.iter().copied().chain(usual).chain(place);
        Program::run(self.project.path(), args, SOON).await
    }
}

/// A kubeconfig in three files.
fn write_in_parts(project: &Project, whole: &str) -> Result<()> {
    let (rest, contexts) = whole.split_once("contexts:").context("contexts")?;
    let (rest, users) = rest.split_once("users:").context("users")?;
    let (_, clusters) = rest.split_once("clusters:").context("clusters")?;
    project.write("contexts.part", format!("contexts:{contexts}"))?;
    project.write("users.part", format!("users:{users}"))?;
    project.write("clusters.part", format!("clusters:{clusters}"))?;
    Ok(())
}

/// Service accounts that may read, change, or do nothing; and the person, who may use them.
async fn callers(environment: &Environment, server: &Server, project: &Project) -> Result<()> {
    let printed = Program::run(project.path(), ["rbac", "--callers"], SOON).await?;
    let roles = printed.expect_code(0)?.stdout;
    kubectl(environment, server, &["apply", "-f", "-"], &roles).await?;
    let mut all = Vec::new();
    for account in ["viewer", "editor", "nobody"] {
        all.push(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": "default"}}),
        );
    }
    let group = "rbac.authorization.k8s.io";
    for (account, role) in [("viewer", "view"), ("editor", "edit")] {
        all.push(json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": account},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": format!("windlass-api-{role}")},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}]}));
    }
    all.push(json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": PERSON, "namespace": "default"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "windlass-api-proxy"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": PERSON}]}));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
    kubectl(
        environment,
        server,
        &["apply", "-f", "-"],
        &list.to_string(),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers"]
async fn a_real_server_says_whose_a_token_is_and_what_its_user_may_do() -> Result<()> {
    let mut stage = Stage::start().await?;
    let clusters = "/api/v1/clusters";
    let viewer = stage.token("viewer", &[AUDIENCE]).await?;
    let editor = stage.token("editor", &[AUDIENCE]).await?;
    let nobody = stage.token("nobody", &[AUDIENCE]).await?;
    let (status, text) = stage.get(clusters, &viewer).await?;
    assert_eq!(status, 200, "{text}");
    assert_eq!(stage.get("/metrics", &viewer).await?.0, 200);
    // Every user may `get /api/*` of the server itself, which is no right to read here.
    let (status, text) = stage.get(clusters, &nobody).await?;
    assert_eq!(status, 403, "{text}");
    let name = "system:serviceaccount:default:nobody";
    assert!(text.contains(name), "{text}");
    assert_eq!(stage.get("/metrics", &nobody).await?.0, 403);

    // Without a token, with one for another audience, for the server itself, and with none of its tokens.
    let other = stage.token("viewer", &["elsewhere"]).await?;
    let servers = stage.token("viewer", &[]).await?;
    let both = stage.token("viewer", &["elsewhere", AUDIENCE]).await?;
    let admin = stage.server().token().to_owned();
    for (token, expected) in [
        ("", 401),
        (&other, 401),
        (&servers, 401),
        (&admin, 401),
        ("abc", 401),
        (&both, 200),
    ] {
        let (status, text) = stage.get(clusters, token).await?;
        assert_eq!(status, expected, "{text}");
    }
    for open in ["/livez", "/readyz"] {
        assert_eq!(stage.http.get(open).await?.0, 200, "{open}");
    }

    let (status, text) = stage.requeue(&viewer).await?;
    assert_eq!(status, 403, "{text}");
    eventually(SOON, "a requeue by the editor", || async {
        Ok(Seen::of(stage.requeue(&editor).await?, |seen| {
            seen.0 == 200
        }))
    })
    .await?;
    let editors = "system:serviceaccount:default:editor";
    let line = stage
        .program
        .line_with("a caller requeued a key", SOON)
        .await?;
    assert!(line.contains(editors), "{line}");
    stage.audited("Requeued", editors).await?;

    // A right that is taken away is gone within seconds, and so is a token.
    stage.expect(clusters, &viewer, 200).await?;
    kubectl(
        &stage.environment,
        stage.server(),
        &["delete", "clusterrolebinding", "viewer"],
        "",
    )
    .await?;
    stage.expect(clusters, &viewer, 403).await?;
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(stage.client.clone(), "default");
    accounts.delete("viewer", &DeleteParams::default()).await?;
    stage.expect(clusters, &viewer, 401).await?;

    // Known callers are answered for a while without the server, and strangers are not.
    let get = async |token: &str| stage.get(clusters, token).await;
    stage.expect(clusters, &editor, 200).await?;
    stage.server().kill();
    let (status, text) = get(&editor).await?;
    assert_eq!(status, 200, "{text}");
    let (status, text) = get(&viewer).await?;
    assert_eq!(status, 503, "{text}");
    assert_eq!(stage.http.get("/livez").await?.0, 200);
    Ok(())
}

/// An address of this machine that is not loopback, which an API server passes nothing on to.
fn address_of_this_machine() -> Result<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // Nothing is sent.
    socket.connect("198.51.100.1:9").context("a route")?;
    let address = socket.local_addr()?.ip();
    ensure!(!address.is_loopback(), "this machine has no other address");
    Ok(address)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real servers"]
async fn commands_find_the_leader_and_reach_it_through_a_real_api_server() -> Result<()> {
    let stage = Stage::start().await?;
    let refused = stage.command(&["get", "clusters"]).await?.expect_code(1)?;
    assert!(
        refused.stderr.contains("--as-service-account"),
        "{}",
        refused.stderr
    );
    let as_viewer = [
        "get",
        "clusters",
        "-o",
        "json",
        "--as-service-account",
        "viewer",
    ];
    let refused = stage.command(&as_viewer).await?.expect_code(1)?;
    assert!(
        refused.stderr.contains(&format!("default/{POD}")),
        "{}",
        refused.stderr
    );

    stage.create_pod().await?;

    eventually(SOON, "the clusters as the leader shows them", || async {
        let finished = stage.command(&as_viewer).await?;
        let told: Json = match finished.code() {
            Some(0) => serde_json::from_str(&finished.stdout)?,
            _ => return Ok(Seen::NotYet(finished.stderr)),
        };
        let ready = |item: &Json| item["name"] == "alpha" && item["state"] == "Ready";
        let items = told["items"].as_array().cloned().unwrap_or_default();
        Ok(if items.iter().any(ready) {
            Seen::Yes(())
        } else {
            Seen::NotYet(told.to_string())
        })
    })
    .await?;
    let requeue = [
        "requeue",
        "cluster://alpha/default/a",
        "--reconciler",
        "hello",
    ];
    let requeue_as = async |more: &[&str]| {
        let all: Vec<&str> = requeue.iter().chain(more).copied().collect();
        stage.command(&all).await
    };
    let refused = requeue_as(&["--as-service-account", "viewer"])
        .await?
        .expect_code(1)?;
    assert!(
        refused.stderr.contains("may not post"),
        "{}",
        refused.stderr
    );
    let refused = requeue_as(&["--as-service-account", "absent"])
        .await?
        .expect_code(1)?;
    assert!(refused.stderr.contains("absent"), "{}", refused.stderr);
    requeue_as(&["--as-service-account", "editor"])
        .await?
        .expect_code(0)?;
    stage
        .audited("Requeued", "system:serviceaccount:default:editor")
        .await?;

    // A token in a file, and one that is for another audience.
    let token = stage.token("editor", &[AUDIENCE]).await?;
    stage.project.write("good.token", token)?;
    let token = stage.token("editor", &["elsewhere"]).await?;
    stage.project.write("other.token", token)?;
    requeue_as(&["--token", "good.token"])
        .await?
        .expect_code(0)?;
    let refused = requeue_as(&["--token", "other.token"])
        .await?
        .expect_code(1)?;
    assert!(
        refused.stderr.contains("for the audience windlass.dev"),
        "{}",
        refused.stderr
    );
    let rollback = ["rollback", "hello", "--as-service-account", "editor"];
    let refused = stage.command(&rollback).await?.expect_code(1)?;
    assert!(
        refused.stderr.contains("no previous revision"),
        "{}",
        refused.stderr
    );

    // The context, its cluster and its user are in files of their own, as kubectl merges them.
    let port = stage.port()?;
    let args = [
        "get",
        "keys",
        "--context",
        "alpha",
        "-n",
        "default",
        "--port",
        port,
    ];
    let args = args.into_iter().chain(["--as-service-account", "viewer"]);
    let listed = [(
        "KUBECONFIG",
        "absent.part:contexts.part:clusters.part:users.part",
    )];
    let finished = Program::start_with(stage.project.path(), args, &listed)?;
    finished.wait(SOON).await?.expect_code(0)?;

    // A pod by its name, and a Lease that is not there.
    let named = [
        "get",
        "keys",
        "--as-service-account",
        "viewer",
        "--pod",
        POD,
    ];
    stage.command(&named).await?.expect_code(0)?;
    let absent = [
        "get",
        "keys",
        "--as-service-account",
        "viewer",
        "--lease",
        "absent",
    ];
    let refused = stage.command(&absent).await?.expect_code(1)?;
    assert!(
        refused.stderr.contains("there is no Lease default/absent"),
        "{}",
        refused.stderr
    );
    stage.program.signal("TERM")?;
    stage
        .program
        .wait(Duration::from_secs(60))
        .await?
        .expect_code(0)?;
    Ok(())
}
