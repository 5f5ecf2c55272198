//! What kubeconfigs may contain, and what errors say about them.

use super::*;
use crate::http::transport::{Call, TransportError, TransportOptions, Transports};
use crate::metrics::Metrics;
use crate::name::ClusterName;
use ::http::Method;
use std::time::Duration;
use tokio::runtime::Handle;

fn kubeconfig(user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- {{name: c, cluster: {{server: 'http://127.0.0.1:1/clusters/a'}}}}\n\
         contexts:\n- {{name: a, context: {{cluster: c, user: u}}}}\nusers:\n- {{name: u, user: {user}}}\n"
    )
}

#[test]
fn a_plugins_path_is_relative_to_the_kubeconfigs_folder_and_a_bare_name_is_left_to_path() {
    for (command, expected) in [
        ("./bin/plugin", "/folder/./bin/plugin"),
        ("bin/plugin", "/folder/bin/plugin"),
        ("../plugin", "/folder/../plugin"),
        ("/bin/plugin", "/bin/plugin"),
        ("plugin", "plugin"),
    ] {
        let user = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {command}}}}}"
        );
        let folder = Some(Path::new("/folder"));
        let text = kubeconfig(&user);
        let config =
            ClusterConfig::from_kubeconfig_text(&text, None, folder, &KubeconfigPolicy::file())
                .unwrap();
        let exec = config.access().user.exec.clone().unwrap();
        assert_eq!(exec.command.as_deref(), Some(expected));
    }
}

#[test]
fn an_authoritys_file_without_end_is_refused() {
    let yaml = "clusters: [{name: c, cluster: {server: 'https://one', certificate-authority: /dev/zero}}]\n\
        contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n";
    let refused = ClusterConfig::from_kubeconfig_text(yaml, None, None, &KubeconfigPolicy::file());
    let reason = refused.unwrap_err().to_string();
    assert!(
        reason
            .contains("certificate-authority \"/dev/zero\" cannot be read: it is no regular file"),
        "{reason}"
    );
}

fn load(user: &str, policy: &KubeconfigPolicy) -> Result<ClusterConfig, ConfigError> {
    ClusterConfig::from_kubeconfig_text(&kubeconfig(user), None, None, policy)
}

#[test]
fn credentials_make_a_configuration_but_not_a_server() {
    let a = load("{token: one}", &KubeconfigPolicy::file()).unwrap();
    let b = load("{token: two}", &KubeconfigPolicy::file()).unwrap();
    assert!(a.same(&load("{token: one}", &KubeconfigPolicy::file()).unwrap()));
    assert!(!a.same(&b) && a.same_server(&b));
}

#[test]
fn a_workspace_is_reached_by_itself_with_the_credentials_of_its_endpoint() {
    let url = "https://kcp/services/apiexport/abc/widgets/clusters/*";
    let endpoint = ClusterConfig::from_url(url).unwrap();
    let own = endpoint.at_workspace("c1").unwrap();
    assert_eq!(
        own.server(),
        "https://kcp/services/apiexport/abc/widgets/clusters/c1"
    );
    assert_eq!(own.connection_digest(), endpoint.connection_digest());
    assert!(own.at_workspace("c1").is_none());
    // A copy of it is used as it is, at another address.
    let copy = ClusterConfig::of_copy("http://127.0.0.1:1/clusters/copy", "t", &own).unwrap();
    assert_eq!(copy.access().known_path(), own.access().url.path());
}

#[test]
fn a_workspace_and_its_copy_tell_whether_it_begins_or_ends() {
    for (service, begins, ends) in [
        ("initializingworkspaces/abc:team", true, false),
        ("terminatingworkspaces/abc:team", false, true),
        ("apiexport/abc/widgets", false, false),
    ] {
        let url = format!("https://kcp/services/{service}/clusters/*");
        let endpoint = ClusterConfig::from_url(&url).unwrap();
        let own = endpoint.at_workspace("c1").unwrap();
        let copy = ClusterConfig::of_copy("http://127.0.0.1:1/clusters/copy", "t", &own).unwrap();
        for config in [endpoint, own, copy] {
            let told = (config.is_of_initializing(), config.is_of_terminating());
            assert_eq!(told, (begins, ends), "{service}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_only_read_is_sent_no_other_call() {
    let config = ClusterConfig::from_url("http://127.0.0.1:1").unwrap();
    let transports = Transports::new(Handle::current(), TransportOptions::default());
    let metrics = Metrics::default().cluster(&ClusterName::local(), "");
    let connection = transports.connect(&config.only_reading(), false, metrics);
    let error = |method| {
        let mut call = Call::get("/api".to_owned(), "application/json");
        call.method = method;
        let connection = connection.clone();
        async move {
            let sent = connection.send(call, Duration::from_secs(20)).await;
            sent.err().unwrap()
        }
    };
    // Nobody listens there.
    let read = error(Method::GET).await;
    assert!(matches!(read, TransportError::Unreachable { .. }), "{read}");
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let written = error(method).await;
        assert!(
            matches!(written, TransportError::OnlyRead { .. }),
            "{written}"
        );
    }
}

#[test]
fn a_kubeconfig_from_a_secret_has_neither_plugins_nor_files() {
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false', interactiveMode: Never}}";
    assert!(load(exec, &KubeconfigPolicy::file()).is_ok());
    assert!(matches!(
        load(exec, &KubeconfigPolicy::object()),
        Err(ConfigError::Exec(_))
    ));
    assert!(matches!(
        load("{tokenFile: /etc/token}", &KubeconfigPolicy::object()),
        Err(ConfigError::FileReference { .. })
    ));
}

#[test]
fn errors_name_the_contexts_and_quote_nothing_secret() {
    let error = ClusterConfig::from_kubeconfig_text(
        &kubeconfig("{token: hush}"),
        Some("b"),
        None,
        &KubeconfigPolicy::file(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "context \"b\" is not in the kubeconfig: it has a"
    );
    let config = load("{token: hush}", &KubeconfigPolicy::file()).unwrap();
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn contexts_are_listed() {
    let read = Kubeconfig::parse(&kubeconfig("{}"), None).unwrap();
    let names = read.contexts(&KubeconfigPolicy::file());
    let names: Vec<_> = names.iter().map(|context| &context.name).collect();
    assert_eq!(names, ["a"]);
    assert!(Kubeconfig::parse("- not: one", None).is_err());
}

/// A kubeconfig whose cluster has these fields, in one line of YAML.
fn of_cluster(fields: &str) -> String {
    kubeconfig("{token: hush}").replace("server: 'http://127.0.0.1:1/clusters/a'", fields)
}

fn read(fields: &str, policy: &KubeconfigPolicy) -> Result<ClusterConfig, ConfigError> {
    ClusterConfig::from_kubeconfig_text(&of_cluster(fields), None, None, policy)
}

#[test]
fn plugins_can_be_denied_to_a_file_and_allowed_to_an_object() {
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false', interactiveMode: Never}}";
    let denied = KubeconfigPolicy {
        exec: ExecPolicy::Deny,
        ..KubeconfigPolicy::file()
    };
    assert!(matches!(load(exec, &denied), Err(ConfigError::Exec(_))));
    assert!(load("{tokenFile: /etc/token}", &denied).is_ok());
    let allowed = KubeconfigPolicy {
        exec: ExecPolicy::Allow,
        allow_servers: AllowServers::any(),
        ..KubeconfigPolicy::object()
    };
    assert!(load(exec, &allowed).is_ok());
    let file = load("{tokenFile: /etc/token}", &allowed);
    assert!(matches!(file, Err(ConfigError::FileReference { .. })));
}

#[test]
fn a_kubeconfig_from_an_object_needs_leave_to_skip_verification() {
    let fields = "server: 'https://10.0.0.1', insecure-skip-tls-verify: true";
    assert!(read(fields, &KubeconfigPolicy::file()).is_ok());
    let object = KubeconfigPolicy::object();
    assert!(matches!(
        read(fields, &object),
        Err(ConfigError::Insecure(_))
    ));
    let allowed = KubeconfigPolicy {
        allow_insecure: true,
        ..object
    };
    assert!(read(fields, &allowed).is_ok());
}

#[test]
fn a_kubeconfig_from_an_object_names_only_servers_and_proxies_that_are_allowed() {
    for (fields, refused) in [
        ("server: 'https://10.0.0.1'", None),
        ("server: 'https://api.example.com:6443'", None),
        ("server: 'https://127.0.0.1'", Some("server")),
        ("server: 'https://[::ffff:127.0.0.1]:6443'", Some("server")),
        ("server: 'https://localhost'", Some("server")),
        ("server: 'https://a.b', proxy-url: 'http://10.0.0.1'", None),
        (
            "server: 'https://a.b', proxy-url: 'http://127.0.0.1:3128'",
            Some("proxy-url"),
        ),
        (
            "server: 'https://a.b', proxy-url: 'socks5://localhost'",
            Some("proxy-url"),
        ),
        (
            "server: 'https://169.254.169.254', proxy-url: 'http://10.0.0.1'",
            Some("server"),
        ),
    ] {
        assert!(read(fields, &KubeconfigPolicy::file()).is_ok(), "{fields}");
        match (read(fields, &KubeconfigPolicy::object()), refused) {
            (Ok(_), None) => {}
            (Err(ConfigError::ServerNotAllowed { field, .. }), Some(expected)) => {
                assert_eq!(field, expected, "{fields}");
            }
            (outcome, _) => panic!("{fields}: {outcome:?}"),
        }
    }
    let refused = read("server: 'https://127.0.0.1'", &KubeconfigPolicy::object());
    assert_eq!(
        refused.unwrap_err().to_string(),
        "context \"a\" names a server that it may not: 127.0.0.1 is not allowed by allowServers, which has every server but \
         loopback and link-local addresses: add the address if kubeconfigs of this source may name it"
    );
}

#[test]
fn a_proxy_that_cannot_be_used_is_refused_without_its_password() {
    for url in ["ftp://me:hush@proxy", "me:hush@proxy", "http://me:hush@"] {
        let fields = format!("server: 'https://a.b', proxy-url: '{url}'");
        let refused = read(&fields, &KubeconfigPolicy::file()).unwrap_err();
        let text = format!("{refused} {refused:?}");
        assert!(matches!(refused, ConfigError::Proxy { .. }), "{text}");
        assert!(!text.contains("hush"), "{text}");
    }
}

#[test]
fn clusters_with_other_policies_or_proxies_share_no_connections() {
    let of = |fields: &str, list: &[&str]| {
        let policy = KubeconfigPolicy {
            allow_servers: AllowServers::parse(list).unwrap(),
            ..KubeconfigPolicy::object()
        };
        read(fields, &policy).unwrap()
    };
    let direct = "server: 'https://a.b'";
    let through = |login: &str| format!("server: 'https://a.b', proxy-url: 'http://{login}@p'");
    let first = of(direct, &["*"]);
    let digest = |config: &ClusterConfig| config.connection_digest();
    assert_eq!(digest(&first), digest(&of(direct, &["*"])));
    for other in [
        of(direct, &["a.b"]),
        read(direct, &KubeconfigPolicy::file()).unwrap(),
        of(&through("me:one"), &["*"]),
        of(&through("me:two"), &["*"]),
    ] {
        assert_ne!(digest(&first), digest(&other));
        assert!(!first.same(&other) && first.same_server(&other));
    }
    let (one, two) = (
        of(&through("me:one"), &["*"]),
        of(&through("me:two"), &["*"]),
    );
    assert_ne!(digest(&one), digest(&two));
}

/// These texts merged, each in a folder of its own: `/0`, `/1`, …
fn merged(texts: &[&str]) -> Kubeconfig {
    let mut all = Kubeconfig::default();
    for (position, text) in texts.iter().enumerate() {
        let folder = PathBuf::from(format!("/{position}"));
        all.merge(Kubeconfig::parse(text, Some(&folder)).unwrap());
    }
    all
}

fn current(kubeconfig: &Kubeconfig) -> Result<ClusterConfig, ConfigError> {
    kubeconfig.context(None, &KubeconfigPolicy::file())
}

const CONTEXTS: &str = "contexts: [{name: a, context: {cluster: c, user: u}}, {name: b, context: {cluster: c, namespace: ''}}]";
const CLUSTERS: &str = "clusters: [{name: c, cluster: {server: 'https://one'}}]";
const USERS: &str = "users: [{name: u, user: {tokenFile: token}}]";

#[test]
fn of_several_files_the_first_entry_of_a_name_counts_whole() {
    let apart = merged(&[
        "current-context: ''",
        CONTEXTS,
        "current-context: a",
        CLUSTERS,
        USERS,
        "clusters: [{name: c, cluster: {server: 'https://two', tls-server-name: other}}]\n\
         users: [{name: u, user: {tokenFile: other, token: other}}]\ncurrent-context: b",
    ]);
    let config = current(&apart).unwrap();
    let access = config.access();
    assert_eq!(config.server(), "https://one/");
    assert_eq!(access.tls_server_name, None);
    assert_eq!(access.user.token_file.as_deref(), Some("/4/token"));
    assert!(access.user.token.is_none());
    let b = apart.context(Some("b"), &KubeconfigPolicy::file()).unwrap();
    assert!(b.access().user.is_anonymous());
    assert_eq!(b.namespace(), "default");
}

#[test]
fn a_merged_kubeconfig_of_objects_still_names_no_files() {
    let apart = merged(&[CONTEXTS, CLUSTERS, USERS]);
    let refused = apart.context(Some("a"), &KubeconfigPolicy::object());
    assert!(matches!(refused, Err(ConfigError::FileReference { .. })));
}

#[test]
fn a_context_says_which_part_of_it_is_missing() {
    let contexts = "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]";
    for (texts, reason) in [
        (&[contexts, CLUSTERS][..], "user \"u\" is not defined"),
        (&[contexts, USERS], "cluster \"c\" is not defined"),
        (
            &["current-context: a\ncontexts: [{name: a, context: {user: u}}]"],
            "it names no cluster",
        ),
        (
            &["current-context: a\ncontexts: [{name: a}]"],
            "it names no cluster",
        ),
    ] {
        let refused = current(&merged(texts)).unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn base64_may_have_line_ends() {
    let pem = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    use base64::Engine as _;
    let data = base64::engine::general_purpose::STANDARD.encode(pem);
    let (one, other) = data.split_at(40);
    let fields = |data: &str| format!("server: 'https://one', certificate-authority-data: {data}");
    let plain = read(&fields(&data), &KubeconfigPolicy::file()).unwrap();
    let wrapped = fields(&format!("\"{one}\\n{other}\\r\\n\""));
    let wrapped = read(&wrapped, &KubeconfigPolicy::file()).unwrap();
    assert!(plain.same(&wrapped));
    let user = |data: &str| format!("{{client-certificate-data: {data}, client-key-data: {data}}}");
    let plain = load(&user("aGVsbG8="), &KubeconfigPolicy::file()).unwrap();
    let wrapped = load(&user("\"aGVs\\nbG8=\\n\""), &KubeconfigPolicy::file()).unwrap();
    assert!(plain.same(&wrapped));
}
