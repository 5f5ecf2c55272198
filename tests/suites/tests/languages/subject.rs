//! Who goes through the cases: the native reconciler and components, under one grant and one configuration. Entry point: [`Subject`].

use crate::book::Book;
use crate::components::sandbox;
use crate::native::Native;
use crate::replayed::everything;
use anyhow::Result;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::grant::ClusterRule;
use windlass_fleet::name::NamePattern;
use windlass_fleet::outbound::{HttpGrant, HttpRule, HttpRuleText};
use windlass_fleet::source::{Index, Watch};
use windlass_fleet::{ControllerName, Grant, GroupVersionKind, Reconciler, Rule, TenantName};
use windlass_sandbox::{
    Guest, GuestOptions, Isolation, Limits, Reuse, Revision, Tenant, TenantLimits,
};

/// Who goes through the cases.
pub(crate) enum Subject {
    /// The reconciler in Rust on `windlass-fleet`.
    Native,
    /// A component.
    Guest(Component),
}

/// A component, and how it is run.
#[derive(Clone)]
pub(crate) struct Component {
    /// What it is called in its tenant's name.
    pub(crate) name: &'static str,
    pub(crate) revision: Revision,
    pub(crate) config: Value,
    pub(crate) isolation: Isolation,
}

impl Component {
    /// One that is run as by default.
    pub(crate) fn new(name: &'static str, revision: Revision) -> Self {
        Self {
            name,
            revision,
            config: config(),
            isolation: Isolation::Fresh,
        }
    }

    /// The same in an instance that serves call after call.
    pub(crate) fn reused(&self) -> Self {
        Self {
            isolation: Isolation::Reuse(Reuse::default()),
            ..self.clone()
        }
    }

    fn is_fresh(&self) -> bool {
        self.isolation == Isolation::Fresh
    }

    pub(crate) fn options(&self, tenant: &str, timeout: Duration) -> GuestOptions {
        let limits = Limits {
            memory: 128 << 20,
            timeout,
            batch_operations: 20,
            ..Limits::default()
        };
        GuestOptions {
            tenant: Tenant::new(
                TenantName::new(tenant).expect("a tenant's name"),
                &TenantLimits::default(),
            ),
            name: ControllerName::new("conformance").expect("a reconciler's name"),
            grant: Arc::new(Grant::new(rules())),
            http: Arc::default(),
            config: self.config.to_string(),
            limits,
            isolation: self.isolation,
            record: self.is_fresh().then(everything),
            secrets: Vec::new(),
        }
    }
}

impl Subject {
    /// The tenant of its runs of this length: runs at the same time are told apart by it.
    pub(crate) fn tenant(&self, timeout: Duration) -> String {
        let (name, how) = match self {
            Self::Native => ("native", ""),
            Self::Guest(component) => match component.isolation {
                Isolation::Fresh => (component.name, "-fresh"),
                Isolation::Reuse(_) => (component.name, "-reused"),
            },
        };
        format!("{name}{how}-for-{}-ms", timeout.as_millis())
    }
}

/// What a controller is built from.
pub(crate) struct Parts {
    pub(crate) primary: Option<GroupVersionKind>,
    pub(crate) watches: Vec<Watch>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) reconciler: Arc<dyn Reconciler>,
    /// The guest, if all of its runs are recorded.
    pub(crate) recorded: Option<Arc<Guest>>,
}

/// What the reconciler may touch.
pub(crate) fn rules() -> Vec<Rule> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| Rule {
        api_groups: vec![group.into()],
        resources: resources.iter().map(|&resource| resource.into()).collect(),
        verbs: verbs.iter().map(|&verb| verb.into()).collect(),
        namespaces: vec!["*".into()],
        ..Rule::default()
    };
    let others = ClusterRule {
        names: vec![NamePattern::new("b*")],
        ..ClusterRule::default()
    };
    let watched = [
        "secrets",
        "services",
        "serviceaccounts",
        "persistentvolumeclaims",
    ];
    vec![
        rule("", &["configmaps"], &["*"]),
        rule("", &["secrets"], &["create", "patch"]),
        rule("apps", &["*"], &["*"]),
        rule("", &watched, &["get", "list", "watch"]),
        rule("", &["namespaces"], &["get"]),
        Rule {
            clusters: Some(others),
            ..rule("", &["configmaps"], &["get", "list", "watch", "create"])
        },
    ]
}

/// The value of the header that the operator adds to calls of servers that are no API servers.
pub(crate) const CREDENTIAL: &str = "Bearer hunter2";

/// What it may call besides, on a port of this machine.
pub(crate) fn http(port: u16) -> Result<Arc<HttpGrant>> {
    let rule = HttpRule::new(HttpRuleText {
        hosts: vec!["127.0.0.1".to_owned()],
        ports: vec![port],
        methods: vec!["GET".to_owned(), "POST".to_owned()],
        plain: true,
        addresses: vec!["127.0.0.0/8".to_owned()],
        headers: vec![("Authorization".into(), CREDENTIAL.into())],
        ..HttpRuleText::default()
    })?;
    Ok(Arc::new(HttpGrant::new(vec![rule], None)))
}

/// What the operator configured.
pub(crate) fn config() -> Value {
    json!({"greeting": "good \"morning\"", "count": 3, "list": ["a", "b"], "nested": {"deep": true}})
}

/// `http`: what it may call besides API servers.
pub(crate) async fn parts(
    subject: &Subject,
    book: &Arc<Book>,
    http: Arc<HttpGrant>,
    timeout: Duration,
) -> Result<Parts> {
    match subject {
        Subject::Native => {
            let grant = Grant::new(rules());
            let native = Arc::new(Native::new(grant, http, config(), book.clone()));
            Ok(Parts {
                primary: Some(native.primary()),
                watches: native.watches(),
                indexes: native.indexes(),
                reconciler: native,
                recorded: None,
            })
        }
        Subject::Guest(component) => {
            let options = GuestOptions {
                http,
                ..component.options(&subject.tenant(timeout), timeout)
            };
            let guest = Guest::new(sandbox(), options, component.revision.clone()).await?;
            let parts = guest.controller_parts();
            Ok(Parts {
                primary: parts.primary,
                watches: parts.watches,
                indexes: parts.indexes,
                recorded: component.is_fresh().then(|| guest.clone()),
                reconciler: guest,
            })
        }
    }
}
