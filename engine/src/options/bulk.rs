//! The options and the writes of `bulk_write`.

use std::time::Duration;

use base::namespace::Namespace;
use bson::{Bson, Document, doc};
use store::options::WriteConcern;

use crate::options::argument::Argument;
use crate::options::collation::Collation;
use crate::options::declare::options;
use crate::options::indexes::Hint;
use crate::options::writes::UpdateModifications;

options!(
    /// Options of [`bulk_write`](crate::Collection::bulk_write), to set with `with_options`.
    ///
    /// ```
    /// # use cairndb::{Client, BulkWriteOptions, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_many([doc! { "_id": 1, "name": "Ada" }, doc! { "_id": 2, "name": "Grace" }]).run()?;
    ///
    /// let mut options = BulkWriteOptions::default();
    /// options.ordered = Some(false);
    /// let writes = [people.insert_one_model(doc! { "_id": 1 })?, people.insert_one_model(doc! { "_id": 3 })?];
    /// assert!(people.bulk_write(writes).with_options(options).run().is_err());
    /// assert_eq!(people.count_documents(doc! {}).run()?, 3);
    /// # Ok(())
    /// # }
    /// ```
    BulkWriteOptions, bulk_write_option, {
        /// With `true`, the default, the call stops at the first rejected write. With `false` it tries all writes.
        ordered: bool,
        /// The same as the option of [`insert_one`](crate::Collection::insert_one), for all inserts. It has no effect on other writes.
        bypass_document_validation: bool,
        /// A comment. It is accepted, and neither stored nor logged.
        comment: Bson,
        /// Variables for expressions, where `$$name` is the value of the variable `name`.
        let_vars: Document,
        /// The time limit of all writes together. When it is over the call fails with code 50 (`MaxTimeMSExpired`). What was written by
        /// then stays.
        max_time: Duration,
        /// The write concern: it decides when the writes are acknowledged. The default is as the client was opened.
        write_concern: WriteConcern,
    }
);

/// One write of [`Client::bulk_write`](crate::Client::bulk_write). Every model converts into it.
///
/// ```
/// use cairndb::{Namespace, UpdateOneModel, WriteModel, bson::doc};
///
/// let visit: WriteModel = UpdateOneModel::builder()
///     .namespace(Namespace::new("site", "pages"))
///     .filter(doc! { "_id": "home" })
///     .update(doc! { "$inc": { "visits": 1 } })
///     .upsert(true)
///     .build()
///     .into();
/// assert_eq!(visit.namespace().to_string(), "site.pages");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WriteModel {
    /// Inserts a document.
    InsertOne(InsertOneModel),
    /// Changes one document that matches.
    UpdateOne(UpdateOneModel),
    /// Changes every document that matches.
    UpdateMany(UpdateManyModel),
    /// Replaces one document that matches.
    ReplaceOne(ReplaceOneModel),
    /// Removes one document that matches.
    DeleteOne(DeleteOneModel),
    /// Removes every document that matches.
    DeleteMany(DeleteManyModel),
}

/// Declares a model, its builder, and its conversion into a `WriteModel`. The example, which the model, its builder and
/// `builder()` have, builds `write`.
macro_rules! model {
    (
        $(#[$doc:meta])* $model:ident, $builder:ident, $variant:ident, [$($example:literal),+ $(,)?],
        { $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)* },
        { $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty,)* }
    ) => {
        $(#[$doc])*
        ///
        /// ```
        /// # use cairndb::{Client, Namespace, bson::{Document, doc}};
        /// # fn main() -> cairndb::Result<()> {
        /// # let folder = tempfile::tempdir()?;
        /// # let client = Client::open(folder.path().join("db"))?;
        /// let people = client.database("app").collection::<Document>("people");
        /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
        ///
        #[doc = concat!(" let write = cairndb::", stringify!($model), "::builder()")]
        ///     .namespace(Namespace::new("app", "people"))
        $(#[doc = concat!("     ", $example)])+
        ///     .build();
        /// client.bulk_write([write]).run()?;
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $model {
            /// The collection to write to.
            pub namespace: Namespace,
            $($(#[$required_doc])* pub $required: $required_type,)*
            $($(#[$optional_doc])* pub $optional: Option<$optional_type>,)*
        }

        #[doc = concat!(" Builds a [`", stringify!($model), "`], which has an example.")]
        #[derive(Clone, Debug)]
        #[must_use]
        pub struct $builder {
            model: $model,
        }

        impl $model {
            /// Starts the model of a write. Its namespace is required.
            ///
            /// ```
            /// # use cairndb::{Client, Namespace, bson::{Document, doc}};
            /// # fn main() -> cairndb::Result<()> {
            /// # let folder = tempfile::tempdir()?;
            /// # let client = Client::open(folder.path().join("db"))?;
            /// let people = client.database("app").collection::<Document>("people");
            /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
            ///
            #[doc = concat!(" let write = cairndb::", stringify!($model), "::builder()")]
            ///     .namespace(Namespace::new("app", "people"))
            $(#[doc = concat!("     ", $example)])+
            ///     .build();
            /// client.bulk_write([write]).run()?;
            /// # Ok(())
            /// # }
            /// ```
            pub fn builder() -> $builder {
                $builder {
                    // The call rejects an empty namespace, which is not a valid name.
                    model: Self {
                        namespace: Namespace::new("", ""),
                        $($required: Document::new().into(),)*
                        $($optional: None,)*
                    },
                }
            }
        }

        impl $builder {
            /// The collection to write to.
            ///
            /// ```
            /// # use cairndb::{Client, Namespace, bson::{Document, doc}};
            /// # fn main() -> cairndb::Result<()> {
            /// # let folder = tempfile::tempdir()?;
            /// # let client = Client::open(folder.path().join("db"))?;
            /// let people = client.database("app").collection::<Document>("people");
            /// people.insert_one(doc! { "_id": 1, "name": "Ada" }).run()?;
            ///
            #[doc = concat!(" let write = cairndb::", stringify!($model), "::builder()")]
            ///     .namespace(Namespace::new("app", "people"))
            $(#[doc = concat!("     ", $example)])+
            ///     .build();
            /// client.bulk_write([write]).run()?;
            /// # Ok(())
            /// # }
            /// ```
            pub fn namespace(mut self, namespace: Namespace) -> Self {
                self.model.namespace = namespace;
                self
            }

            $(
                $(#[$required_doc])*
                pub fn $required(mut self, $required: impl Into<$required_type>) -> Self {
                    self.model.$required = $required.into();
                    self
                }
            )*

            $(
                $(#[$optional_doc])*
                pub fn $optional(mut self, $optional: impl Into<Option<$optional_type>>) -> Self {
                    self.model.$optional = $optional.into();
                    self
                }
            )*

            /// Returns the model.
            pub fn build(self) -> $model {
                self.model
            }
        }

        impl Argument for $model {
            fn to_argument(&self) -> Bson {
                let mut argument = doc! { "": stringify!($variant), "namespace": self.namespace.to_string() };
                $(argument.insert(stringify!($required), self.$required.to_argument());)*
                $(
                    let given = self.$optional.as_ref();
                    argument.extend(given.map(|given| (stringify!($optional).to_owned(), given.to_argument())));
                )*
                Bson::Document(argument)
            }
        }

        impl From<$model> for WriteModel {
            fn from(model: $model) -> Self {
                Self::$variant(model)
            }
        }
    };
}

model!(
    /// Inserts a document.
    InsertOneModel, InsertOneModelBuilder, InsertOne, [r#".document(doc! { "name": "Grace" })"#],
    {
        /// The document to insert.
        document: Document,
    },
    {}
);

model!(
    /// Changes one document that matches.
    UpdateOneModel, UpdateOneModelBuilder, UpdateOne, [
        r#".filter(doc! { "_id": 1 })"#,
        r#".update(doc! { "$inc": { "visits": 1 } })"#,
        ".upsert(true)",
    ],
    {
        /// The filter that the document matches.
        filter: Document,
        /// The change: operators, or the stages of a pipeline.
        update: UpdateModifications,
    },
    {
        /// The filters for array elements: `$[name]` in the update means the elements that the filter on `name` matches.
        array_filters: Vec<Document>,
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation,
        /// The index to use, by its keys or its name.
        hint: Hint,
        /// With `true`, a document is inserted when none matches.
        upsert: bool,
        /// The order that decides which of several matching documents is chosen.
        sort: Document,
    }
);

model!(
    /// Changes every document that matches.
    UpdateManyModel, UpdateManyModelBuilder, UpdateMany, [
        r#".filter(doc! { "name": "Ada" })"#,
        r#".update(doc! { "$set": { "seen": true } })"#,
    ],
    {
        /// The filter that the documents match.
        filter: Document,
        /// The change: operators, or the stages of a pipeline.
        update: UpdateModifications,
    },
    {
        /// The filters for array elements: `$[name]` in the update means the elements that the filter on `name` matches.
        array_filters: Vec<Document>,
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation,
        /// The index to use, by its keys or its name.
        hint: Hint,
        /// With `true`, a document is inserted when none matches.
        upsert: bool,
    }
);

model!(
    /// Replaces one document that matches.
    ReplaceOneModel, ReplaceOneModelBuilder, ReplaceOne, [
        r#".filter(doc! { "_id": 1 })"#,
        r#".replacement(doc! { "name": "Augusta" })"#,
    ],
    {
        /// The filter that the document matches.
        filter: Document,
        /// The new document.
        replacement: Document,
    },
    {
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation,
        /// The index to use, by its keys or its name.
        hint: Hint,
        /// With `true`, the replacement is inserted when no document matches.
        upsert: bool,
        /// The order that decides which of several matching documents is chosen.
        sort: Document,
    }
);

model!(
    /// Removes one document that matches.
    DeleteOneModel, DeleteOneModelBuilder, DeleteOne, [r#".filter(doc! { "name": "Ada" })"#],
    {
        /// The filter that the document matches.
        filter: Document,
    },
    {
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation,
        /// The index to use, by its keys or its name.
        hint: Hint,
    }
);

model!(
    /// Removes every document that matches.
    DeleteManyModel, DeleteManyModelBuilder, DeleteMany, [r#".filter(doc! { "name": "Ada" })"#],
    {
        /// The filter that the documents match.
        filter: Document,
    },
    {
        /// The rules by which strings are compared. By default their bytes are compared.
        collation: Collation,
        /// The index to use, by its keys or its name.
        hint: Hint,
    }
);

impl WriteModel {
    /// Returns the collection to write to.
    ///
    /// ```
    /// # use cairndb::{InsertOneModel, Namespace, WriteModel};
    /// let write = InsertOneModel::builder().namespace(Namespace::new("app", "people")).build();
    /// assert_eq!(WriteModel::from(write).namespace().to_string(), "app.people");
    /// ```
    pub fn namespace(&self) -> &Namespace {
        match self {
            Self::InsertOne(model) => &model.namespace,
            Self::UpdateOne(model) => &model.namespace,
            Self::UpdateMany(model) => &model.namespace,
            Self::ReplaceOne(model) => &model.namespace,
            Self::DeleteOne(model) => &model.namespace,
            Self::DeleteMany(model) => &model.namespace,
        }
    }
}

impl Argument for WriteModel {
    fn to_argument(&self) -> Bson {
        match self {
            Self::InsertOne(model) => model.to_argument(),
            Self::UpdateOne(model) => model.to_argument(),
            Self::UpdateMany(model) => model.to_argument(),
            Self::ReplaceOne(model) => model.to_argument(),
            Self::DeleteOne(model) => model.to_argument(),
            Self::DeleteMany(model) => model.to_argument(),
        }
    }
}
