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
        "4:7: spec of Provider x: no source of clusters: give one of kubeconfigFiles, single, kind, none",
    );
    assert_refused(
        "{none: }",
        "4:7: spec of Provider x: no source of clusters: give one of kubeconfigFiles, single, kind, none",
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
        "4:35: spec.prefix of Provider x: it is empty: leave it out for no prefix",
    );
    assert_refused(
        "{single: {kubeconfig: a}, prefix: \"a#\"}",
        "4:35: spec.prefix of Provider x: \"a#\" has a #, which is put behind it anyway: leave it out",
    );
    let long = "x".repeat(252);
    assert_refused(
        &format!("{{single: {{kubeconfig: a}}, prefix: {long}}}"),
        "4:35: spec.prefix of Provider x: cluster name of 254 bytes is too long: use at most 253",
    );
    assert_refused(
        "{kubeconfigFiles: {name: \"{file}+{contxt}\"}}",
        "4:26: spec.kubeconfigFiles.name of Provider x: there is no field {contxt}: use {path}, {file}, {context} and {cluster}",
    );
}

#[test]
fn whether_kubeconfigs_may_run_programs_is_one_of_two_words() {
    assert_refused(
        "{kubeconfigFiles: {}, exec: deny}",
        "4:35: spec.exec of Provider x: \"deny\" is not known: did you mean \"Deny\"?",
    );
}
