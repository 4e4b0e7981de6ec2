//! Whether the log of changes has documents before and after their changes.

/// Whether the log of changes has a collection's documents as they were before their changes, and as updates have left them. The name is
/// that of MongoDB's driver.
///
/// ```
/// # use cairndb::{ChangeStreamPreAndPostImages, Client};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let images = ChangeStreamPreAndPostImages { enabled: true };
/// client.database("shop").create_collection("orders").change_stream_pre_and_post_images(images).run()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeStreamPreAndPostImages {
    /// Whether it has them.
    pub enabled: bool,
}
