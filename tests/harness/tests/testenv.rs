//! The files of the real servers that the harness starts are gone afterwards. What else servers do here, the tests that use them prove.

use anyhow::Result;
use windlass_harness::testenv::{self, Environment, Spec};

#[tokio::test]
async fn the_environment_takes_its_files_with_it() -> Result<()> {
    if !testenv::enabled("the environment takes its files with it") {
        return Ok(());
    }
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let folder = environment.folder().to_path_buf();
    assert!(folder.join("alpha/kube-apiserver.log").is_file());
    drop(environment);
    assert!(!folder.exists());
    Ok(())
}
