//! Hints, which name an index, and the definitions of indexes.

use bson::Document;
use serde::{Deserialize, Serialize};

/// Names the index that a call must use.
///
/// ```
/// # use cairndb::{Client, Hint, IndexModel, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// people.create_index(IndexModel::builder().keys(doc! { "name": 1 }).build()).run()?;
/// people.insert_one(doc! { "name": "Ada" }).run()?;
///
/// let by_name = Hint::Name("name_1".to_owned());
/// assert_eq!(people.find(doc! { "name": "Ada" }).hint(by_name).run()?.count(), 1);
/// let unknown = Hint::Keys(doc! { "born": 1 });
/// assert!(people.find(doc! {}).hint(unknown).run().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Hint {
    /// By its key pattern, such as `{_id: 1}`.
    Keys(Document),
    /// By its name, such as `_id_`.
    Name(String),
}

/// The definition of an index, for [`create_index`](crate::Collection::create_index).
///
/// ```
/// use cairndb::{IndexModel, IndexOptions, bson::doc};
///
/// let by_email = IndexModel::builder()
///     .keys(doc! { "email": 1 })
///     .options(IndexOptions::builder().unique(true).build())
///     .build();
/// assert_eq!(by_email.keys, doc! { "email": 1 });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexModel {
    /// The keys: field paths with 1 (ascending) or -1 (descending), in their order.
    // The field's name in MongoDB's descriptions of indexes, which `list_indexes` decodes into this type.
    #[serde(rename = "key")]
    pub keys: Document,
    /// The other options.
    // MongoDB has the options beside `key`, and not in a document of their own.
    #[serde(flatten)]
    pub options: Option<IndexOptions>,
}

impl IndexModel {
    /// Starts a definition. Its keys are required.
    ///
    /// ```
    /// # use cairndb::{IndexModel, bson::doc};
    /// let model = IndexModel::builder().keys(doc! { "name": 1, "born": -1 }).build();
    /// assert_eq!(model.options, None);
    /// ```
    pub fn builder() -> IndexModelBuilder {
        IndexModelBuilder { model: Self::default() }
    }
}

/// Builds an [`IndexModel`].
///
/// ```
/// # use cairndb::{Client, IndexModel, IndexOptions, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let builder = IndexModel::builder().keys(doc! { "email": 1 });
/// let by_email = builder.options(IndexOptions::builder().unique(true).build()).build();
/// assert_eq!(people.create_index(by_email).run()?.index_name, "email_1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct IndexModelBuilder {
    model: IndexModel,
}

impl IndexModelBuilder {
    /// The keys: field paths with 1 (ascending) or -1 (descending), in their order.
    ///
    /// ```
    /// # use cairndb::{IndexModel, bson::doc};
    /// let by_city = IndexModel::builder().keys(doc! { "address.city": 1, "name": -1 }).build();
    /// assert_eq!(by_city.keys.len(), 2);
    /// ```
    pub fn keys(mut self, keys: Document) -> Self {
        self.model.keys = keys;
        self
    }

    /// The other options.
    ///
    /// ```
    /// # use cairndb::{IndexModel, IndexOptions, bson::doc};
    /// let unique = IndexOptions::builder().unique(true).build();
    /// let by_email = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
    /// assert_eq!(by_email.options.and_then(|options| options.unique), Some(true));
    /// ```
    pub fn options(mut self, options: impl Into<Option<IndexOptions>>) -> Self {
        self.model.options = options.into();
        self
    }

    /// Returns the definition.
    pub fn build(self) -> IndexModel {
        self.model
    }
}

/// The options of an index.
///
/// ```
/// # use cairndb::{Client, IndexModel, IndexOptions, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// # let people = client.database("app").collection::<Document>("people");
/// let options = IndexOptions::builder().unique(true).sparse(true).build();
/// people.create_index(IndexModel::builder().keys(doc! { "email": 1 }).options(options).build()).run()?;
/// // Only documents that have an address must differ.
/// people.insert_many([doc! { "name": "Ada" }, doc! { "name": "Grace" }]).run()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexOptions {
    /// The name of the index. The default is made from its keys, such as `name_1_born_-1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// With `true`, no two documents can have the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<bool>,
    /// With `true`, documents that have none of the fields are not in the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse: Option<bool>,
}

impl IndexOptions {
    /// Starts a set of options.
    ///
    /// ```
    /// # use cairndb::IndexOptions;
    /// let options = IndexOptions::builder().name("by_email".to_owned()).build();
    /// assert_eq!(options.name.as_deref(), Some("by_email"));
    /// ```
    pub fn builder() -> IndexOptionsBuilder {
        IndexOptionsBuilder { options: Self::default() }
    }
}

/// Builds [`IndexOptions`].
///
/// ```
/// # use cairndb::IndexOptions;
/// let options = IndexOptions::builder().name("by_email".to_owned()).unique(true).build();
/// assert_eq!(options.unique, Some(true));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct IndexOptionsBuilder {
    options: IndexOptions,
}

impl IndexOptionsBuilder {
    /// The name of the index. The default is made from its keys, such as `name_1_born_-1`.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, IndexOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let options = IndexOptions::builder().name("by_email".to_owned()).build();
    /// let by_email = IndexModel::builder().keys(doc! { "email": 1 }).options(options).build();
    /// assert_eq!(people.create_index(by_email).run()?.index_name, "by_email");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(mut self, name: impl Into<Option<String>>) -> Self {
        self.options.name = name.into();
        self
    }

    /// With `true`, no two documents can have the same key. The default is `false`.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, IndexOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let options = IndexOptions::builder().unique(true).build();
    /// people.create_index(IndexModel::builder().keys(doc! { "email": 1 }).options(options).build()).run()?;
    /// people.insert_one(doc! { "email": "ada@example.org" }).run()?;
    /// assert!(people.insert_one(doc! { "email": "ada@example.org" }).run().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn unique(mut self, unique: impl Into<Option<bool>>) -> Self {
        self.options.unique = unique.into();
        self
    }

    /// With `true`, documents that have none of the fields are not in the index. The default is `false`.
    ///
    /// ```
    /// # use cairndb::IndexOptions;
    /// let options = IndexOptions::builder().sparse(true).build();
    /// assert_eq!(options.sparse, Some(true));
    /// ```
    pub fn sparse(mut self, sparse: impl Into<Option<bool>>) -> Self {
        self.options.sparse = sparse.into();
        self
    }

    /// Returns the options.
    pub fn build(self) -> IndexOptions {
        self.options
    }
}
