//! Serves the clusters named as arguments (default: `alpha`) until Ctrl-C and prints their kubeconfig.
//!
//!     cargo run -p windlass-apiserver --example serve -- alpha beta > kubeconfig
//!     kubectl --kubeconfig kubeconfig --context alpha get namespaces

use windlass_apiserver::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let address = names
        .iter()
        .position(|name| name.contains(':'))
        .map(|at| names.remove(at));
    if names.is_empty() {
        names.push("alpha".to_owned());
    }
    let builder = names
        .into_iter()
        .fold(Server::builder(), |builder, name| builder.cluster(name));
    let server = builder
        .bind(address.as_deref().unwrap_or("127.0.0.1:0"))
        .await?;
    println!("{}", server.kubeconfig());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
