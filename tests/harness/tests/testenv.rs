//! The files of the real servers that the harness starts are gone afterwards. What else servers do here, the tests that use them prove.

use anyhow::Result;
use windlass_harness::testenv::{Environment, Spec};

#[tokio::test]
#[ignore = "needs real servers"]
async fn the_environment_takes_its_files_with_it() -> Result<()> {
    let environment = Environment::start([Spec::new("alpha")]).await?;
    let folder = environment.folder().to_path_buf();
    assert!(folder.join("alpha/kube-apiserver.log").is_file());
    drop(environment);
    assert!(!folder.exists());
    Ok(())
}
