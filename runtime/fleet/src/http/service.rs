//! Requests of other client libraries, as a service of `tower`. Entry point: [`HttpService`].

use crate::api::{ApiCode, ApiError};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The body of an answer.
pub(crate) type ServiceBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

type Answered = BoxFuture<'static, Result<Response<ServiceBody>, ApiError>>;

/// Sends requests of other client libraries to the API server of a cluster, with the cluster's connections and credentials. Cheap to clone.
/// Made by [`Client::http_service`](crate::Client::http_service), which says what it takes.
#[derive(Clone)]
pub struct HttpService {
    send: Arc<dyn Fn(Request<Bytes>) -> Answered + Send + Sync>,
}

impl HttpService {
    pub(crate) fn new(send: impl Fn(Request<Bytes>) -> Answered + Send + Sync + 'static) -> Self {
        Self {
            send: Arc::new(send),
        }
    }
}

impl<B: Body<Data = Bytes> + Send + 'static> tower::Service<Request<B>> for HttpService {
    type Response = Response<ServiceBody>;
    type Error = ApiError;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ApiError>> {
        // A call waits for its slot itself.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answered {
        let this = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await else {
                let message = "the body of the request cannot be read";
                return Err(ApiError::host(ApiCode::Invalid, message));
            };
            (this.send)(Request::from_parts(head, body.to_bytes())).await
        })
    }
}
