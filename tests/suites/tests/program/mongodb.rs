//! The example `mongodb` in memory: by itself, and by its README's commands as they are written.

use crate::readme;
use anyhow::Result;

#[tokio::test]
async fn the_commands_of_the_readme_do_what_it_says_in_memory() -> Result<()> {
    readme::in_memory("mongodb", 20).await
}
