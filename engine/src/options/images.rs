//! Options of the log of changes: when changes are logged, and whether it has documents before and after them.

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

/// The collections whose changes are logged, for change streams.
///
/// ```
/// # use cairndb::{ChangeLogging, Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("db");
/// let client = Client::builder().change_log(ChangeLogging::Never).open(&path)?;
/// let refused = client.database("shop").collection::<Document>("orders").watch().run().map(drop);
/// assert_eq!(refused.expect_err("nothing is logged").code(), Some(20));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeLogging {
    /// Nothing is logged. What was logged before is forgotten when the store is opened, and a stream is refused with code 20.
    Never,
    /// The first stream on a collection, a database or the client switches the log on for it, and so does `change_log(true)`. Once no
    /// stream was open for as long as events are kept it is switched off.
    #[default]
    Watched,
    /// Everything is logged from the opening of the store on, but for the collections of the system.
    Always,
}
