//! Which Tenant has a namespace, if several claim it. Entry points: [`Claims::settle`], [`Claims::holder`] and [`Claims::holdings`].
//!
//! The Tenant that has a namespace keeps it while it claims it, so that no other Tenant can stop what runs there. The others are refused.
//! The Tenant that has it is the one that the status of a Reconciler there names: the status outlives processes, and is the same for all
//! of them. Where no status says so: the one that this process took before; a Tenant of a file before an object, in the order of the
//! documents; the older object; the name.

use super::Objects;
use crate::config::kinds::{Identity, Kind, Origin};
use crate::config::load::{Configuration, Document};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The Tenants that have namespaces.
#[derive(Default)]
pub(super) struct Claims {
    /// By namespace. Each has one claim at least.
    of: BTreeMap<String, Claim>,
    /// What it comes to, by Tenant.
    holdings: BTreeMap<String, Holding>,
}

/// The claims of a namespace.
struct Claim {
    holder: String,
    /// The other Tenants that claim it.
    refused: Vec<String>,
}

/// What the claims of a Tenant come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    /// The namespaces that it has and that there are.
    pub(crate) namespaces: usize,
    /// Those that it claims and another Tenant has; none: there is no such namespace.
    pub(crate) refused: Option<Contested>,
    /// Those that it has and another Tenant claims; none: there is no such namespace.
    pub(crate) kept: Option<Contested>,
}

/// Namespaces that several Tenants claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contested {
    /// The first of them, and another Tenant that claims it.
    pub(crate) namespace: String,
    pub(crate) other: String,
    /// How many there are.
    pub(crate) count: usize,
}

impl Claims {
    /// Decides on the namespaces that there are and those of Reconcilers.
    pub(super) fn settle(&mut self, configuration: &Configuration, objects: &Objects) {
        let mut recorded: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for object in &objects.objects {
            if let Some(namespace) = object.namespace.as_deref() {
                let tenant = object.recorded_tenant.as_deref();
                recorded.entry(namespace).or_default().extend(tenant);
            }
        }
        let there = objects.namespaces.keys().map(String::as_str);
        let namespaces: BTreeSet<&str> = there.chain(recorded.keys().copied()).collect();
        let (none, no_labels) = (BTreeSet::new(), BTreeMap::new());
        let mut claims = BTreeMap::new();
        for namespace in namespaces {
            let labels = objects.namespaces.get(namespace).unwrap_or(&no_labels);
            let mut claimants = configuration.claimants(namespace, labels);
            let recorded = recorded.get(namespace).unwrap_or(&none);
            let last = self.holder(namespace);
            let is_new = |of: &Document| {
                let name = of.identity.name.as_str();
                (!recorded.contains(name), last != Some(name))
            };
            claimants.sort_by(|one, other| {
                let order = is_new(one).cmp(&is_new(other));
                order.then_with(|| age(one, other, objects))
            });
            let mut names = claimants.iter().map(|of| of.identity.name.clone());
            if let Some(holder) = names.next() {
                let refused = names.collect();
                claims.insert(namespace.to_owned(), Claim { holder, refused });
            }
        }
        self.of = claims;
        self.holdings = holdings(&self.of, objects);
    }

    /// The Tenant that has a namespace; none: no Tenant claims it.
    pub(super) fn holder(&self, namespace: &str) -> Option<&str> {
        let claim = self.of.get(namespace)?;
        Some(&claim.holder)
    }

    /// What the claims of each Tenant come to, by its name. Tenants without a namespace are left out.
    pub(super) fn holdings(&self) -> &BTreeMap<String, Holding> {
        &self.holdings
    }
}

fn holdings(claims: &BTreeMap<String, Claim>, objects: &Objects) -> BTreeMap<String, Holding> {
    let mut holdings: BTreeMap<String, Holding> = BTreeMap::new();
    for (namespace, claim) in claims {
        let holding = holdings.entry(claim.holder.clone()).or_default();
        holding.namespaces += usize::from(objects.namespaces.contains_key(namespace));
        if let Some(other) = claim.refused.first() {
            count(&mut holding.kept, namespace, other);
        }
        for refused in &claim.refused {
            let holding = holdings.entry(refused.clone()).or_default();
            count(&mut holding.refused, namespace, &claim.holder);
        }
    }
    holdings
}

fn count(contested: &mut Option<Contested>, namespace: &str, other: &str) {
    let contested = contested.get_or_insert_with(|| Contested {
        namespace: namespace.to_owned(),
        other: other.to_owned(),
        count: 0,
    });
    contested.count += 1;
}

/// The order of two Tenants that are both new to a namespace, or both are not.
fn age(one: &Document, other: &Document, objects: &Objects) -> Ordering {
    let of = |document: &Document| {
        let position = (document.position.line, document.position.column);
        match document.origin {
            Origin::File => (false, document.file.to_string(), position),
            Origin::Cluster => (true, created(&document.identity, objects), (0, 0)),
        }
    };
    of(one)
        .cmp(&of(other))
        .then_with(|| one.identity.cmp(&other.identity))
}

fn created(identity: &Identity, objects: &Objects) -> String {
    let mut tenants = objects.objects.iter();
    let found = tenants.find(|of| of.kind == Kind::Tenant && of.name == identity.name);
    found.map(|of| of.created.clone()).unwrap_or_default()
}

impl Contested {
    /// The message to a Tenant whose claim has no effect.
    pub(crate) fn refused(&self) -> String {
        let Self {
            namespace, other, ..
        } = self;
        format!(
            "the Tenant {other} has the namespace {namespace} already and keeps it, so this claim has no effect{}: leave the namespace to one of them",
            self.more()
        )
    }

    /// The message to a Tenant whose namespace another Tenant claims too.
    pub(crate) fn kept(&self) -> String {
        let Self {
            namespace, other, ..
        } = self;
        format!(
            "the Tenant {other} claims the namespace {namespace}, which this Tenant has and keeps{}: leave the namespace to one of them",
            self.more()
        )
    }

    fn more(&self) -> String {
        match self.count {
            1 => String::new(),
            count => format!(" (and {} more such namespaces)", count - 1),
        }
    }
}
