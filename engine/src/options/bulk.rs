//! The writes of a `bulk_write`.

use std::time::Duration;

use bson::{Bson, Document};

use crate::namespace::Namespace;
use crate::options::durability::WriteConcern;
use crate::options::indexes::Hint;
use crate::options::reads::Collation;
use crate::options::writes::UpdateModifications;

/// Options of `bulk_write`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BulkWriteOptions {
    /// `true` (the default): stop at the first refused write. `false`: try all.
    pub ordered: Option<bool>,
    /// Accepted: there are no validators yet that it could bypass.
    pub bypass_document_validation: Option<bool>,
    /// Kept with the operation for tracing.
    pub comment: Option<Bson>,
    /// Variables for expressions, as `$$name`.
    pub let_vars: Option<Document>,
    /// Give up with code 50 after this long; what was written until then stays.
    pub max_time: Option<Duration>,
    /// When the writes count as done.
    pub write_concern: Option<WriteConcern>,
}

/// One write of a `bulk_write`.
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
/// # let _ = visit;
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WriteModel {
    /// Inserts a document.
    InsertOne(InsertOneModel),
    /// Changes the first document that matches.
    UpdateOne(UpdateOneModel),
    /// Changes every document that matches.
    UpdateMany(UpdateManyModel),
    /// Replaces the first document that matches.
    ReplaceOne(ReplaceOneModel),
    /// Removes the first document that matches.
    DeleteOne(DeleteOneModel),
    /// Removes every document that matches.
    DeleteMany(DeleteManyModel),
}

/// Declares a model, its builder, and that it is a write.
macro_rules! model {
    (
        $(#[$doc:meta])* $model:ident, $builder:ident, $variant:ident,
        { $($(#[$required_doc:meta])* $required:ident: $required_type:ty,)* },
        { $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $model {
            /// The collection.
            pub namespace: Namespace,
            $($(#[$required_doc])* pub $required: $required_type,)*
            $($(#[$optional_doc])* pub $optional: Option<$optional_type>,)*
        }

        #[doc = concat!("Builds an [`", stringify!($model), "`].")]
        #[derive(Clone, Debug)]
        #[must_use]
        pub struct $builder {
            model: $model,
        }

        impl $model {
            /// Starts a write. The collection must be named.
            pub fn builder() -> $builder {
                $builder {
                    model: Self {
                        namespace: Namespace::new("", ""),
                        $($required: Document::new().into(),)*
                        $($optional: None,)*
                    },
                }
            }
        }

        impl $builder {
            /// The collection.
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

            /// The write.
            pub fn build(self) -> $model {
                self.model
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
    InsertOneModel, InsertOneModelBuilder, InsertOne,
    {
        /// The document.
        document: Document,
    },
    {}
);

model!(
    /// Changes the first document that matches.
    UpdateOneModel, UpdateOneModelBuilder, UpdateOne,
    {
        /// Which document.
        filter: Document,
        /// What becomes of it.
        update: UpdateModifications,
    },
    {
        /// Which elements `$[name]` stands for.
        array_filters: Vec<Document>,
        /// How texts compare; only the simple collation is there.
        collation: Collation,
        /// The index to use, by keys or by name.
        hint: Hint,
        /// Insert a document when nothing matches.
        upsert: bool,
        /// Which of several matching documents comes first.
        sort: Document,
    }
);

model!(
    /// Changes every document that matches.
    UpdateManyModel, UpdateManyModelBuilder, UpdateMany,
    {
        /// Which documents.
        filter: Document,
        /// What becomes of them.
        update: UpdateModifications,
    },
    {
        /// Which elements `$[name]` stands for.
        array_filters: Vec<Document>,
        /// How texts compare; only the simple collation is there.
        collation: Collation,
        /// The index to use, by keys or by name.
        hint: Hint,
        /// Insert a document when nothing matches.
        upsert: bool,
    }
);

model!(
    /// Replaces the first document that matches.
    ReplaceOneModel, ReplaceOneModelBuilder, ReplaceOne,
    {
        /// Which document.
        filter: Document,
        /// What stands in its place.
        replacement: Document,
    },
    {
        /// How texts compare; only the simple collation is there.
        collation: Collation,
        /// The index to use, by keys or by name.
        hint: Hint,
        /// Insert the replacement when nothing matches.
        upsert: bool,
        /// Which of several matching documents comes first.
        sort: Document,
    }
);

model!(
    /// Removes the first document that matches.
    DeleteOneModel, DeleteOneModelBuilder, DeleteOne,
    {
        /// Which document.
        filter: Document,
    },
    {
        /// How texts compare; only the simple collation is there.
        collation: Collation,
        /// The index to use, by keys or by name.
        hint: Hint,
    }
);

model!(
    /// Removes every document that matches.
    DeleteManyModel, DeleteManyModelBuilder, DeleteMany,
    {
        /// Which documents.
        filter: Document,
    },
    {
        /// How texts compare; only the simple collation is there.
        collation: Collation,
        /// The index to use, by keys or by name.
        hint: Hint,
    }
);

impl WriteModel {
    /// The collection that it writes to.
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
