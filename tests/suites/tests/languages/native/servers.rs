//! The native case about servers that are no API servers. Its lines are what the SDKs make of the answers.

use super::words::{Scene, text};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_fleet::api::ApiError;
use windlass_fleet::outbound::{HttpClient, HttpRequest, HttpResponse};

pub(super) async fn http(scene: &Scene, client: &HttpClient) -> Result<(), ApiError> {
    let server = text(&scene.primary, "/data/server");
    let key = ("x-key".to_owned(), "k".to_owned());
    let answer = client
        .send(HttpRequest {
            headers: vec![key.clone()],
            ..request("GET", format!("{server}/status/429"))
        })
        .await?;
    let fields = [
        ("status", answer.status.to_string()),
        ("wait", header(&answer, "retry-after")),
        ("body", String::from_utf8_lossy(&answer.body).into_owned()),
    ];
    scene.info("answered", &fields);
    let fields = [
        ("status", "429".to_owned()),
        ("message", "the server answers 429: as asked".to_owned()),
        ("wait", "7000".to_owned()),
    ];
    scene.info("failed", &fields);

    let own = ("authorization".to_owned(), "own".to_owned());
    let typed = ("content-type".to_owned(), "application/json".to_owned());
    let posted = client
        .send(HttpRequest {
            headers: vec![key, own, typed],
            body: json!({"count": 3, "text": "żółty"}).to_string().into(),
            ..request("POST", format!("{server}/body"))
        })
        .await?;
    let got: Value = serde_json::from_slice(&posted.body).expect("JSON");
    let fields = [
        ("status", posted.status.to_string()),
        ("type", header(&posted, "content-type")),
        ("count", text(&got, "/count")),
        ("text", text(&got, "/text")),
    ];
    scene.info("posted", &fields);

    let late = HttpRequest {
        timeout: Some(Duration::from_millis(100)),
        ..request("GET", format!("{server}/never"))
    };
    let method = request("DELETE", format!("{server}/body"));
    let host = request("GET", "https://api.example.com/v1".to_owned());
    for (call, request) in [("late", late), ("method", method), ("host", host)] {
        scene.refuse(call, &client.send(request).await);
    }
    Ok(())
}

fn request(method: &str, url: String) -> HttpRequest {
    HttpRequest {
        method: method.to_owned(),
        url,
        ..HttpRequest::default()
    }
}

fn header(answer: &HttpResponse, name: &str) -> String {
    let mut headers = answer.headers.iter();
    let found = headers.find(|(known, _)| known == name);
    found.map_or("none".to_owned(), |(_, value)| value.clone())
}
