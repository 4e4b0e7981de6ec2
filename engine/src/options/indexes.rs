//! Hints, which name an index, and the definitions of indexes.

use std::time::Duration;

use base::error::Result;
use bson::{Bson, Document};
use serde::{Deserialize, Serialize};

use crate::arguments::{Arguments, FromArgument};
use crate::options::collation::Collation;

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

impl FromArgument for Hint {
    fn from_argument(arguments: &Arguments<'_>, field: &str) -> Result<Option<Self>> {
        match arguments.given(field) {
            None => Ok(None),
            Some(Bson::String(name)) => Ok(Some(Self::Name(name.clone()))),
            Some(Bson::Document(keys)) => {
                // MongoDB treats an empty document as no hint.
                Ok(Some(keys.clone()).filter(|keys| !keys.is_empty()).map(Self::Keys))
            }
            found => Err(arguments.wrong_type(field, found, "string or object")),
        }
    }
}

/// The declaration of a clustered collection, for
/// [`CreateCollection::clustered_index`](crate::action::CreateCollection::clustered_index).
///
/// ```
/// use cairndb::{ClusteredIndex, bson::doc};
///
/// let index = ClusteredIndex::default().with_name("by id");
/// assert_eq!((index.key, index.unique, index.name), (doc! { "_id": 1 }, true, Some("by id".to_owned())));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClusteredIndex {
    /// The key: `{_id: 1}`, and no other.
    pub key: Document,
    /// Whether no two documents have the same key: `true`, and nothing else.
    pub unique: bool,
    /// The name of the index on `_id`. The default is `_id_`.
    pub name: Option<String>,
    /// The version: 2, and no other.
    pub v: Option<i32>,
}

impl Default for ClusteredIndex {
    fn default() -> Self {
        Self { key: bson::doc! { "_id": 1 }, unique: true, name: None, v: None }
    }
}

impl ClusteredIndex {
    /// The same declaration with a name.
    ///
    /// The example of the type names one.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }
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
    /// The filter of a partial index: only documents that match it are in the index.
    #[serde(rename = "partialFilterExpression", skip_serializing_if = "Option::is_none")]
    pub partial_filter_expression: Option<Document>,
    /// Makes a TTL index: a document is deleted this long after the date in its field. Fractions of a second are
    /// dropped.
    #[serde(
        rename = "expireAfterSeconds",
        default,
        with = "whole_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub expire_after: Option<Duration>,
    /// The paths that a wildcard index has: those with 1, or all but those with 0.
    #[serde(rename = "wildcardProjection", skip_serializing_if = "Option::is_none")]
    pub wildcard_projection: Option<Document>,
    /// With `true`, the index is kept up to date, and no search uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// The index's comparison of strings. By default their bytes are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collation: Option<Collation>,
    /// With `true`, this is the index on `_id` of a collection that was declared to be clustered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clustered: Option<bool>,
}

/// Durations as whole seconds, as MongoDB's descriptions of indexes have them.
mod whole_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<i64>::deserialize(deserializer)?;
        let time =
            |seconds| u64::try_from(seconds).map(Duration::from_secs).map_err(serde::de::Error::custom);
        seconds.map(time).transpose()
    }
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

    /// The filter of a partial index: only documents that match it are in the index. It can have `$eq`, `$gt`, `$gte`,
    /// `$lt`, `$lte`, `$in`, `$type`, `{$exists: true}`, and `$and` and `$or` of these.
    ///
    /// Searches use the index if it is proven that every document they look for is in it: if their filter contains
    /// this one or narrower conditions. Together with `unique`, only documents in the index must differ.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, IndexOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let orders = client.database("app").collection::<Document>("orders");
    /// let open = doc! { "state": "open" };
    /// let options = IndexOptions::builder().unique(true).partial_filter_expression(open).build();
    /// orders.create_index(IndexModel::builder().keys(doc! { "table": 1 }).options(options).build()).run()?;
    /// // A table has one open order, and any number of others.
    /// orders.insert_one(doc! { "table": 5, "state": "open" }).run()?;
    /// orders.insert_one(doc! { "table": 5, "state": "paid" }).run()?;
    /// assert!(orders.insert_one(doc! { "table": 5, "state": "open" }).run().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn partial_filter_expression(mut self, filter: impl Into<Option<Document>>) -> Self {
        self.options.partial_filter_expression = filter.into();
        self
    }

    /// Makes a TTL index, on one field: a document is deleted this long after the date in the field, or after the earliest
    /// of the dates in an array there. Documents without a date do not expire. Fractions of a second are dropped; the
    /// limit is 2^31 - 1 seconds.
    ///
    /// A thread of the client deletes what has expired, once a minute unless
    /// [`ttl_interval`](crate::ClientBuilder::ttl_interval) says otherwise. So documents stay for a while after their time,
    /// and as long as no client has the database open.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cairndb::{Client, IndexModel, IndexOptions, bson::{DateTime, Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let sessions = client.database("app").collection::<Document>("sessions");
    /// let hour = IndexOptions::builder().expire_after(Duration::from_secs(3600)).build();
    /// sessions.create_index(IndexModel::builder().keys(doc! { "used": 1 }).options(hour).build()).run()?;
    /// sessions.insert_one(doc! { "user": "ada", "used": DateTime::from_millis(0) }).run()?;
    /// // The thread would do this within a minute.
    /// client.expire_documents().run()?;
    /// assert_eq!(sessions.count_documents(doc! {}).run()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn expire_after(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.expire_after = time.into();
        self
    }

    /// The paths that an index on `{"$**": 1}` has: those with 1 and what is below them, or all but those with 0. `_id` is
    /// left out unless it has 1.
    ///
    /// ```
    /// # use cairndb::{Client, IndexModel, IndexOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let products = client.database("app").collection::<Document>("products");
    /// let options = IndexOptions::builder().wildcard_projection(doc! { "description": 0 }).build();
    /// products.create_index(IndexModel::builder().keys(doc! { "$**": 1 }).options(options).build()).run()?;
    /// products.insert_one(doc! { "attributes": { "color": "red", "width": 30 } }).run()?;
    /// assert!(products.find_one(doc! { "attributes.width": { "$gt": 20 } }).run()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn wildcard_projection(mut self, projection: impl Into<Option<Document>>) -> Self {
        self.options.wildcard_projection = projection.into();
        self
    }

    /// With `true`, the index is kept up to date and its uniqueness enforced, and no search uses it. So it can be tried
    /// out whether an index is needed, before it is dropped. The default is `false`;
    /// [`modify_index`](crate::Collection::modify_index) changes it.
    ///
    /// ```
    /// # use cairndb::{Client, Hint, IndexModel, IndexOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let options = IndexOptions::builder().hidden(true).build();
    /// people.create_index(IndexModel::builder().keys(doc! { "name": 1 }).options(options).build()).run()?;
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// let hint = Hint::Name("name_1".to_owned());
    /// assert!(people.find(doc! {}).hint(hint).run().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn hidden(mut self, hidden: impl Into<Option<bool>>) -> Self {
        self.options.hidden = hidden.into();
        self
    }

    /// Sets the index's comparison of strings: by default by their bytes. Together with `unique`, no two documents
    /// can have strings that are equal by the rules of the language.
    ///
    /// Searches for strings use the index if they have the same collation. For numbers, dates and all values without strings
    /// the collation makes no difference.
    ///
    /// ```
    /// # use cairndb::{Client, Collation, CollationStrength, IndexModel, IndexOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let any_case = Collation::with_locale("en").strength(CollationStrength::Secondary);
    /// let options = IndexOptions::builder().unique(true).collation(any_case.clone()).build();
    /// people.create_index(IndexModel::builder().keys(doc! { "name": 1 }).options(options).build()).run()?;
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// assert!(people.insert_one(doc! { "name": "ADA" }).run().is_err());
    /// assert!(people.find_one(doc! { "name": "ada" }).collation(any_case).run()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn collation(mut self, collation: impl Into<Option<Collation>>) -> Self {
        self.options.collation = collation.into();
        self
    }

    /// Whether the index is the one on `_id` of a collection that was declared to be clustered: to be asked for only there, where
    /// it is already.
    ///
    /// ```
    /// # use cairndb::{Client, ClusteredIndex, IndexModel, IndexOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// let app = client.database("app");
    /// app.create_collection("people").clustered_index(ClusteredIndex::default()).run()?;
    /// let options = IndexOptions::builder().unique(true).clustered(true).build();
    /// let model = IndexModel::builder().keys(doc! { "_id": 1 }).options(options).build();
    /// assert_eq!(app.collection::<Document>("people").create_index(model.clone()).run()?.index_name, "_id_");
    /// assert_eq!(app.collection::<Document>("others").create_index(model).run().unwrap_err().code(), Some(6100900));
    /// # Ok(())
    /// # }
    /// ```
    pub fn clustered(mut self, clustered: impl Into<Option<bool>>) -> Self {
        self.options.clustered = clustered.into();
        self
    }

    /// Returns the options.
    pub fn build(self) -> IndexOptions {
        self.options
    }
}
