//! A page for people that shows the fleet and has the commands' actions. Entry point: [`pages`].
//!
//! The page holds nothing itself: its script asks the API, with the token of the person before it. So everybody may have the page, under
//! any name of this process, also that of an API server that passes the request on. All of its addresses are relative for that reason.
//! It loads nothing from elsewhere, and its headers forbid a browser to.

use crate::app::App;
use axum::Router;
use axum::http::header::{self, HeaderName};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use std::sync::Arc;

/// Where the page is.
const PATH: &str = "/console/";

/// Script and style of this process alone, no frames, no forms that leave the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Whether a path is of the page.
pub(super) fn is_page(path: &str) -> bool {
    path == "/console" || path.starts_with(PATH)
}

pub(super) fn pages() -> Router<Arc<App>> {
    let page = |kind, text| get(move || async move { answer(kind, text) });
    let script = |text| page("text/javascript; charset=utf-8", text);
    Router::new()
        .route(
            "/console",
            get(|| async { Redirect::permanent("console/") }),
        )
        .route(
            PATH,
            page(
                "text/html; charset=utf-8",
                include_str!("console/index.html"),
            ),
        )
        .route(
            "/console/console.css",
            page(
                "text/css; charset=utf-8",
                include_str!("console/console.css"),
            ),
        )
        .route(
            "/console/console.js",
            script(include_str!("console/console.js")),
        )
        .route(
            "/console/elements.js",
            script(include_str!("console/elements.js")),
        )
        .route(
            "/console/plots.js",
            script(include_str!("console/plots.js")),
        )
        .route(
            "/console/release.js",
            script(include_str!("console/release.js")),
        )
}

fn answer(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let headers: [(HeaderName, &str); 5] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // After an upgrade the script and the page belong together.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}
