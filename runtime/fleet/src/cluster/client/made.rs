//! Reads of objects that the host makes. Entry points: [`Client::get_made`] and [`Client::store_of_made`].
//!
//! A cached read has all that the kind's other caches have shown. A live one has the objects as they are now.

use super::Client;
use super::target::Target;
use crate::api::{ApiCode, ApiError, GetOptions, Json, ReadMode};
use crate::cache::made::Made;
use crate::cache::store::{Store, projected};
use crate::cluster::objects::may_see;
use crate::request::ObjectKey;
use std::sync::Arc;

impl Client {
    pub(super) fn get_made(
        &self,
        target: &Target,
        made: &Arc<dyn Made>,
        key: &ObjectKey,
        options: &GetOptions,
    ) -> Result<Option<Json>, ApiError> {
        if options.subresource.is_some() {
            let message = format!("{} has no subresource", target.resource.kind);
            return Err(ApiError::host(ApiCode::Invalid, message));
        }
        let store = self.store_of_made(target, made, options.mode)?;
        let grant = self.grant();
        let held = store.get(key).map(|(object, _)| object);
        let seen = held.filter(|object| may_see(&grant, object));
        Ok(seen.map(|object| projected(&object, options.projection)))
    }

    /// A store of all objects, as new as a read asks for.
    pub(super) fn store_of_made(
        &self,
        target: &Target,
        made: &Arc<dyn Made>,
        mode: ReadMode,
    ) -> Result<Arc<Store>, ApiError> {
        let store = self.open_for_read(target, None)?;
        match mode {
            ReadMode::Cached => made.catch_up(&store),
            ReadMode::Live => made.fill(&store),
        }
        Ok(store)
    }
}
