//! What kubeconfigs may contain, and what errors say about them.

use super::*;

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
            ClusterConfig::from_kubeconfig_text(&text, None, folder, Provenance::File).unwrap();
        let exec = config.access().user.exec.clone().unwrap();
        assert_eq!(exec.command.as_deref(), Some(expected));
    }
}

#[test]
fn an_authoritys_file_without_end_is_refused() {
    let yaml = "clusters: [{name: c, cluster: {server: 'https://one', certificate-authority: /dev/zero}}]\n\
        contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n";
    let refused = ClusterConfig::from_kubeconfig_text(yaml, None, None, Provenance::File);
    let reason = refused.unwrap_err().to_string();
    assert!(
        reason
            .contains("certificate-authority \"/dev/zero\" cannot be read: it is no regular file"),
        "{reason}"
    );
}

fn load(user: &str, provenance: Provenance) -> Result<ClusterConfig, ConfigError> {
    ClusterConfig::from_kubeconfig_text(&kubeconfig(user), None, None, provenance)
}

#[test]
fn credentials_make_a_configuration_but_not_a_server() {
    let a = load("{token: one}", Provenance::File).unwrap();
    let b = load("{token: two}", Provenance::File).unwrap();
    assert!(a.same(&load("{token: one}", Provenance::File).unwrap()));
    assert!(!a.same(&b) && a.same_server(&b));
}

#[test]
fn a_kubeconfig_from_a_secret_has_neither_plugins_nor_files() {
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false', interactiveMode: Never}}";
    assert!(load(exec, Provenance::File).is_ok());
    assert!(matches!(
        load(exec, Provenance::Secret),
        Err(ConfigError::Exec(_))
    ));
    assert!(matches!(
        load("{tokenFile: /etc/token}", Provenance::Secret),
        Err(ConfigError::FileReference { .. })
    ));
}

#[test]
fn errors_name_the_contexts_and_quote_nothing_secret() {
    let error = ClusterConfig::from_kubeconfig_text(
        &kubeconfig("{token: hush}"),
        Some("b"),
        None,
        Provenance::File,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "context \"b\" is not in the kubeconfig: it has a"
    );
    let config = load("{token: hush}", Provenance::File).unwrap();
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn contexts_are_listed_in_order() {
    assert_eq!(contexts(&kubeconfig("{}")).unwrap(), ["a"]);
    assert!(contexts("- not: one").is_err());
}
