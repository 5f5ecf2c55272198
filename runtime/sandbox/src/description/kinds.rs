//! Kinds that every cluster has and the resources that serve them, for saying which rules a guest needs without asking a
//! cluster. Entry point: [`plural_of`].

use windlass_fleet::{FLEET_GROUP, GroupVersionKind};

/// The resource of a kind that clusters serve by a CustomResourceDefinition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomResource {
    /// Its API group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// As rules name it: the plural, in lower case.
    pub resource: String,
}

impl CustomResource {
    pub(crate) fn is(&self, kind: &GroupVersionKind) -> bool {
        self.group == *kind.group && self.kind == *kind.kind
    }
}

/// Group, kind, resource.
const BUILT_IN: &[(&str, &str, &str)] = &[
    ("", "ConfigMap", "configmaps"),
    ("", "Endpoints", "endpoints"),
    ("", "Event", "events"),
    ("", "LimitRange", "limitranges"),
    ("", "Namespace", "namespaces"),
    ("", "Node", "nodes"),
    ("", "PersistentVolume", "persistentvolumes"),
    ("", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("", "Pod", "pods"),
    ("", "PodTemplate", "podtemplates"),
    ("", "ReplicationController", "replicationcontrollers"),
    ("", "ResourceQuota", "resourcequotas"),
    ("", "Secret", "secrets"),
    ("", "Service", "services"),
    ("", "ServiceAccount", "serviceaccounts"),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ),
    ("apiregistration.k8s.io", "APIService", "apiservices"),
    ("apps", "ControllerRevision", "controllerrevisions"),
    ("apps", "DaemonSet", "daemonsets"),
    ("apps", "Deployment", "deployments"),
    ("apps", "ReplicaSet", "replicasets"),
    ("apps", "StatefulSet", "statefulsets"),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
    ),
    ("batch", "CronJob", "cronjobs"),
    ("batch", "Job", "jobs"),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "certificatesigningrequests",
    ),
    ("coordination.k8s.io", "Lease", "leases"),
    ("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    ("events.k8s.io", "Event", "events"),
    (FLEET_GROUP, "Cluster", "clusters"),
    ("networking.k8s.io", "Ingress", "ingresses"),
    ("networking.k8s.io", "IngressClass", "ingressclasses"),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies"),
    ("node.k8s.io", "RuntimeClass", "runtimeclasses"),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles"),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        "clusterrolebindings",
    ),
    ("rbac.authorization.k8s.io", "Role", "roles"),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings"),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses"),
    ("storage.k8s.io", "CSIDriver", "csidrivers"),
    ("storage.k8s.io", "CSINode", "csinodes"),
    ("storage.k8s.io", "StorageClass", "storageclasses"),
    ("storage.k8s.io", "VolumeAttachment", "volumeattachments"),
];

/// The resource that serves a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plural {
    pub(crate) name: String,
    /// Whether it is known, or made up by the rules of English that most authors follow.
    pub(crate) known: bool,
}

/// The resource of a built-in kind, or a guess.
pub(crate) fn plural_of(group: &str, kind: &str) -> Plural {
    match BUILT_IN
        .iter()
        .find(|(known_group, known_kind, _)| *known_group == group && *known_kind == kind)
    {
        Some((_, _, plural)) => Plural {
            name: (*plural).to_owned(),
            known: true,
        },
        None => Plural {
            name: guess(&kind.to_lowercase()),
            known: false,
        },
    }
}

fn guess(singular: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| singular.ends_with(ending));
    if ends(&["s", "x", "z", "ch", "sh"]) {
        return format!("{singular}es");
    }
    match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_kinds_are_known_and_others_are_guessed() {
        assert_eq!(
            plural_of("", "ConfigMap"),
            Plural {
                name: "configmaps".into(),
                known: true
            }
        );
        for (kind, plural) in [
            ("Widget", "widgets"),
            ("Proxy", "proxies"),
            ("Gateway", "gateways"),
            ("Mesh", "meshes"),
        ] {
            assert_eq!(
                plural_of("example.dev", kind),
                Plural {
                    name: plural.into(),
                    known: false
                }
            );
        }
    }

    #[test]
    fn the_guess_agrees_with_what_is_known() {
        let exceptions = ["Endpoints"];
        for (group, kind, plural) in BUILT_IN
            .iter()
            .filter(|(_, kind, _)| !exceptions.contains(kind))
        {
            assert_eq!(guess(&kind.to_lowercase()), *plural, "{group}/{kind}");
        }
    }
}
