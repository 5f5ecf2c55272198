//! Every source of clusters on real API servers, whose objects are those of the projects that the sources come from. Entry points: the
//! modules below, one per source.
//!
//! The scenarios are those of multicluster-runtime's providers, in the order of its sources, and ways in which they fail there:
//!
//! | scenario | test |
//! |---|---|
//! | three labelled Secrets are three clusters; old, new and changed objects are reconciled | `secrets::labelled_secrets_are_clusters…` |
//! | a Secret names another server | `secrets::a_secret_that_names_another_server…` |
//! | another annotation keeps the instance | `secrets::another_annotation…` |
//! | a Secret is deleted, loses its label, or has a finalizer | `secrets::a_secret_that_is_deleted_unlabelled_or_terminating…` |
//! | the key is missing or empty | `secrets::a_secret_without_a_kubeconfig…` |
//! | forty operations at once | `secrets::forty_writers_at_once…` |
//! | a new kubeconfig is invalid | `secrets::an_invalid_new_kubeconfig…` |
//! | other namespaces, other values of the label | `secrets::secrets_of_other_namespaces_and_labels…` |
//! | contexts that are not current; exec | `secrets::only_the_current_context…`; servers: `engine::inventories` |
//! | files: none at first, globs, every context, two folders, deleted, replaced, half written, unchanged | `provider::kubeconfig_files::tests` of `windlass-fleet` |
//! | Cluster API: initialized | `cluster_api::a_cluster_of_cluster_api_is_engaged_once…` |
//! | its kubeconfig changes, also from the Secret alone | `cluster_api::another_kubeconfig…` |
//! | it is being deleted | `cluster_api::a_cluster_of_cluster_api_that_is_being_deleted…` |
//! | readiness, selector and version of one's own | `cluster_api::a_condition_or_a_selector…`, `cluster_api::the_older_version…` |
//! | ClusterProfiles: healthy, or not | `profiles::a_profile_is_engaged_once…`, `profiles::a_terminating_profile…` |
//! | their Secret, and its identity | `profiles::a_profile_whose_secret_changes_identity…` |
//! | access provider by plugin, its old name, the new one wins | `profiles::the_plugin_of_an_access_provider…` |
//! | readiness of one's own | `profiles::readiness_of_ones_own…` |
//! | strategies that are refused | `provider::cluster_profiles::tests` of `windlass-fleet` |
//! | a heartbeat | `engine::cluster_profiles` |
//! | what one profile adds does not reach another's plugin | `profiles::variables_of_one_profile…` |
//! | each namespace a cluster; an index in one and in all | `namespaces::each_selected_namespace…` |
//! | another namespace; patch, apply, status, events | `namespaces::every_verb…` |
//! | a namespace made anew, or deselected | `namespaces::a_deleted_namespace…` |
//! | other credentials for the server of namespaces | `namespaces::other_credentials…` |
//! | several providers, before and after the start; equal names; an index that was there before | `engine::providers` |
//! | a provider is removed; it crashes | `engine::providers` |
//! | providers of every sort under prefixes; what follows engagement | `several::one_controller…` |
//! | clusters of the program: put, replaced, removed, put twice | `engine::providers` |
//! | one cluster only; the local cluster only | `engine::locality` |
//! | kind: found, gone, damaged, made anew, without its runtime | `kind` |
//! | behind proxy programs of each kind, with and without a login | `proxies` |
//! | pushed from hub to spokes with repair and delete | `journeys::objects_of_the_hub…` |
//! | access plugins end to end | `profiles::the_plugin_of_an_access_provider…` |
//! | one unchanged reconciler in one and in many clusters | `journeys::one_unchanged_reconciler…` |
//!
//! Faults: `outages`, `proxies` and `secrets::a_forbidden_cluster…` here; dead and slow clusters, floods of Secrets and rotation under load stand in
//! the suite `faults`, on simulated servers.

#![allow(
    clippy::expect_used,
    reason = "a test asserts by unwrapping, in its fixture too"
)]

mod cluster_api;
mod journeys;
mod kind;
mod namespaces;
mod outages;
mod play;
mod profiles;
mod proxies;
mod secrets;
mod several;
mod stage;
