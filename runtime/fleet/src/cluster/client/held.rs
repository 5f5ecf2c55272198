//! Lists of the objects that finalizers of a controller hold. Entry point: [`Client::list_held`].

use super::Client;
use super::target::check_namespace;
use crate::api::{ApiError, ListOptions, Projection, ReadMode};
use crate::cluster::call_scope::Caller;
use crate::cluster::scope::SHOWN_NAMESPACE;
use crate::kind::GroupVersionKind;
use crate::object::Held;

/// A page of objects that finalizers hold.
#[derive(Debug, Clone, Default)]
pub struct HeldPage {
    /// The objects.
    pub items: Vec<Held>,
    /// Passed to the next call; `None` on the last page.
    pub continue_token: Option<String>,
}

impl Client {
    /// A page of the objects of a kind that finalizers of a caller's field managers hold. It is read live, because caches leave
    /// `managedFields` out, and of each object the metadata alone. `limit`, `continue_token` and `namespace` are those of a list.
    ///
    /// # Errors
    /// As [`Client::list`].
    pub async fn list_held(
        &self,
        kind: &GroupVersionKind,
        of: &Caller,
        options: &ListOptions,
    ) -> Result<HeldPage, ApiError> {
        let span = self.span("list", kind, None);
        self.scope
            .call(span, self.read_held(kind, of, options))
            .await
    }

    async fn read_held(
        &self,
        kind: &GroupVersionKind,
        of: &Caller,
        options: &ListOptions,
    ) -> Result<HeldPage, ApiError> {
        let options = ListOptions {
            mode: ReadMode::Live,
            projection: Projection::Metadata,
            ..options.clone()
        };
        let target = self.target(kind).await?;
        check_namespace(&target.resource, options.namespace.as_deref())?;
        let plan = self.plan(&target, &options)?;
        // The host's objects have no finalizers.
        if target.made().is_some() {
            return Ok(HeldPage::default());
        }
        let page = self.live_page(&target, &plan, &options).await?;
        let managers = of.field_managers();
        let managers = managers.each_ref().map(String::as_str);
        let items = page.list.items();
        let held = items.filter_map(|item| {
            let mut held = Held::read(item, &managers)?;
            if self.part().is_namespace() {
                held.key.namespace = Some(SHOWN_NAMESPACE.into());
            }
            Some(held)
        });
        Ok(HeldPage {
            items: held.collect(),
            continue_token: page.next,
        })
    }
}
