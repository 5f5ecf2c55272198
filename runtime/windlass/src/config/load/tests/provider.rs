//! Bad Providers, and exactly what is said of each.

use super::{document, problems};

/// The one problem of a Provider with this spec, without the name of the file.
#[track_caller]
fn assert_refused(spec: &str, expected: &str) {
    let text = document("Provider", spec);
    assert_eq!(
        problems(&text),
        [format!("windlass.yaml:{expected}")],
        "for:\n{text}"
    );
}

#[test]
fn a_provider_has_exactly_one_source() {
    assert_refused(
        "{}",
        "4:7: spec of Provider x: no source of clusters: give one of kubeconfigFiles, single, kubeconfigSecret, kubeconfigSecrets, clusterAPI, clusterProfiles, kind, namespaces, kcp, none",
    );
    assert_refused(
        "{none: }",
        "4:7: spec of Provider x: no source of clusters: give one of kubeconfigFiles, single, kubeconfigSecret, kubeconfigSecrets, clusterAPI, clusterProfiles, kind, namespaces, kcp, none",
    );
    assert_refused(
        "{kubeconfigFiles: {paths: [a]}, single: {kubeconfig: a}}",
        "4:7: spec of Provider x: kubeconfigFiles and single are both given: a Provider has one source, make two documents of it",
    );
    assert_refused(
        "{single: {kubeconfig: a}, none: {}}",
        "4:7: spec of Provider x: single and none are both given: a Provider has one source, make two documents of it",
    );
}

#[test]
fn a_field_that_a_source_does_not_have_is_told_with_the_nearest_one() {
    assert_refused(
        "{kubeconfigFile: {paths: [a]}}",
        "4:8: unknown field \"kubeconfigFile\" in spec of Provider x: did you mean \"kubeconfigFiles\"?",
    );
    assert_refused(
        "{none: {clusters: []}}",
        "4:15: unknown field \"clusters\" in spec.none of Provider x: nothing is allowed here",
    );
}

#[test]
fn a_list_that_names_nothing_is_refused() {
    assert_refused(
        "{kubeconfigFiles: {paths: []}}",
        "4:33: spec.kubeconfigFiles.paths of Provider x: the list is empty: name at least one file or folder, or leave it out for the files of kubectl",
    );
}

#[test]
fn names_that_no_cluster_can_have_are_refused() {
    assert_refused(
        "{single: {kubeconfig: a}, prefix: \"\"}",
        "4:41: spec.prefix of Provider x: it is empty: leave it out for no prefix",
    );
    assert_refused(
        "{single: {kubeconfig: a}, prefix: \"a#\"}",
        "4:41: spec.prefix of Provider x: \"a#\" has a #, which is put behind it anyway: leave it out",
    );
    let long = "x".repeat(252);
    assert_refused(
        &format!("{{single: {{kubeconfig: a}}, prefix: {long}}}"),
        "4:41: spec.prefix of Provider x: cluster name of 254 bytes is too long: use at most 253",
    );
    assert_refused(
        "{kcp: {apiExport: {endpointSlice: a}}, onServerChange: stop}",
        "4:62: spec.onServerChange of Provider x: work in a workspace of kcp always goes on until its new caches are filled: leave it out",
    );
    assert_refused(
        "{kubeconfigFiles: {name: \"{file}+{contxt}\"}}",
        "4:32: spec.kubeconfigFiles.name of Provider x: there is no field {contxt}: use {path}, {file}, {context} and {cluster}",
    );
}

#[test]
fn the_documents_of_every_source_are_valid() {
    for spec in [
        "{kubeconfigFiles: {paths: [a], name: \"{file}+{context}\"}, prefix: files, exec: Deny}",
        "{single: {kubeconfig: a}, onServerChange: stop}",
        "{kubeconfigSecrets: {}}",
        "{kubeconfigSecrets: {namespaces: [a], selector: \"a=b,c\", key: k, context: c}, allowServers: [\"*.example.com\", 10.0.0.0/8]}",
        "{kubeconfigSecrets: {from: {kubeconfig: hub, context: c}}, allowInsecure: true}",
        "{clusterAPI: {from: {kubeconfigSecret: {namespace: n, name: s, key: k, context: c}}}, prefix: capi}",
        "{clusterAPI: {ready: Always, onUnready: Disengage}}",
        "{clusterAPI: {ready: {condition: Available}, onUnready: Keep}}",
        "{clusterProfiles: {secrets: {consumer: windlass}, ready: {condition: Healthy}}}",
        "{clusterProfiles: {accessProviders: [{name: a, execConfig: {command: ./a, args: [b], env: [{name: c, value: d}], provideClusterInfo: true}, profileSourcedCLIArgsPolicy: Append, profileSourcedEnvVarsPolicy: Replace}]}}",
        "{kind: {}}",
        "{kind: {namePrefix: fleet-}}",
        "{namespaces: {}}",
        "{namespaces: {from: {kubeconfigSecret: {namespace: n, name: s}}, selector: team}, allowServers: [hub.example.com]}",
        "{kcp: {apiExport: {endpointSlice: widgets}}}",
        "{kcp: {from: {kubeconfig: a}, apiExport: {name: widgets, path: 'root:a'}, names: path}, allowServers: [kcp.example.com]}",
        "{kcp: {initializingWorkspaces: {workspaceType: team}}}",
        "{kcp: {terminatingWorkspaces: {workspaceType: team}}}",
        "{none: {}}",
    ] {
        assert_eq!(
            problems(&document("Provider", spec)),
            [] as [String; 0],
            "for {spec}"
        );
    }
}

#[test]
fn a_hub_is_one_cluster() {
    assert_refused(
        "{clusterAPI: {from: {}}}",
        "4:27: spec.clusterAPI.from of Provider x: it names no cluster: give kubeconfig or kubeconfigSecret, or leave it out for the local cluster",
    );
    assert_refused(
        "{clusterAPI: {from: {kubeconfig: a, kubeconfigSecret: {namespace: b, name: c}}}}",
        "4:27: spec.clusterAPI.from of Provider x: kubeconfig and kubeconfigSecret are both given: keep one of them",
    );
    assert_refused(
        "{clusterAPI: {from: {context: a, kubeconfigSecret: {namespace: b, name: c}}}}",
        "4:37: spec.clusterAPI.from.context of Provider x: it is a context of kubeconfig, which is not given: write it into kubeconfigSecret",
    );
    assert_refused(
        "{clusterAPI: {from: {kubeconfigSecret: {name: c}}}}",
        "4:46: field \"namespace\" is missing in spec.clusterAPI.from.kubeconfigSecret of Provider x: add it",
    );
}

#[test]
fn which_objects_count_is_said_in_words_that_can_be_read() {
    assert_refused(
        "{kubeconfigSecrets: {selector: \"a=(b\"}}",
        "4:38: spec.kubeconfigSecrets.selector of Provider x: label selector \"a=(b\" is wrong: expected a value, found '('",
    );
    assert_refused(
        "{kubeconfigSecrets: {namespaces: []}}",
        "4:40: spec.kubeconfigSecrets.namespaces of Provider x: the list is empty: name at least one, or leave it out for all namespaces",
    );
    assert_refused(
        "{kubeconfigSecrets: {namespaces: [a, \"*\"]}}",
        "4:44: spec.kubeconfigSecrets.namespaces[1] of Provider x: \"*\" is not the name of a namespace: leave the list out for all namespaces",
    );
    assert_refused(
        "{clusterAPI: {ready: Sometimes}}",
        "4:28: spec.clusterAPI.ready of Provider x: \"Sometimes\" is not known: use one of Always",
    );
    assert_refused(
        "{clusterAPI: {ready: {conditon: Ready}}}",
        "4:29: unknown field \"conditon\" in spec.clusterAPI.ready of Provider x: did you mean \"condition\"?",
    );
    assert_refused(
        "{clusterAPI: {onUnready: Disengaged}}",
        "4:32: spec.clusterAPI.onUnready of Provider x: \"Disengaged\" is not known: did you mean \"Disengage\"?",
    );
}

#[test]
fn what_kubeconfigs_may_do_is_said_where_they_can_do_it() {
    assert_refused(
        "{kubeconfigSecrets: {}, allowServers: [10.0.0.0/33]}",
        "4:45: spec.allowServers of Provider x: \"10.0.0.0/33\" in allowServers is not a server: write a host (api.example.com, *.example.com), an address or a CIDR (10.0.0.0/8), without scheme and port",
    );
    assert_refused(
        "{kubeconfigSecrets: {}, allowServers: []}",
        "4:45: spec.allowServers of Provider x: allowServers is empty and would allow no server: name servers, or leave it out for its default",
    );
    assert_refused(
        "{kubeconfigFiles: {}, allowServers: [10.0.0.0/8]}",
        "4:43: spec.allowServers of Provider x: it is for kubeconfigs in objects, and kubeconfigFiles reads none: leave it out",
    );
    assert_refused(
        "{kind: {}, allowInsecure: true}",
        "4:33: spec.allowInsecure of Provider x: it is for kubeconfigs in objects, and kind reads none: leave it out",
    );
    assert_refused(
        "{kubeconfigFiles: {}, exec: deny}",
        "4:35: spec.exec of Provider x: \"deny\" is not known: did you mean \"Deny\"?",
    );
}

#[test]
fn the_clusters_of_cluster_profiles_are_reached_in_one_way() {
    assert_refused(
        "{clusterProfiles: {}}",
        "4:25: spec.clusterProfiles of Provider x: it does not say how the clusters are reached: give accessProviders or secrets",
    );
    assert_refused(
        "{clusterProfiles: {accessProviders: [{name: a, execConfig: {command: b}}], secrets: {consumer: c}}}",
        "4:25: spec.clusterProfiles of Provider x: accessProviders and secrets are both given: keep one of them, or make two documents of it",
    );
    assert_refused(
        "{clusterProfiles: {secrets: {consumer: \"\"}}}",
        "4:46: spec.clusterProfiles.secrets.consumer of Provider x: no consumer is named: give the value of the label x-k8s.io/cluster-inventory-consumer that the Secrets have",
    );
    assert_refused(
        "{clusterProfiles: {accessProviders: []}}",
        "4:43: spec.clusterProfiles.accessProviders of Provider x: no access provider is configured: name at least one, with its plugin",
    );
    assert_refused(
        "{clusterProfiles: {accessProviders: [{name: a, execConfig: {command: b}}]}, exec: Deny}",
        "4:89: spec.exec of Provider x: accessProviders are programs: leave it out, or use secrets",
    );
    assert_refused(
        "{clusterProfiles: {accessProviders: [{name: a, execConfig: {comand: b}}]}}",
        "4:67: unknown field \"comand\" in spec.clusterProfiles.accessProviders[0].execConfig of Provider x: did you mean \"command\"?",
    );
}
