//! The verbs whose calls are counted.

/// A verb of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Aggregate,
    BulkWrite,
    CountDocuments,
    CreateCollection,
    CreateIndexes,
    DeleteMany,
    DeleteOne,
    Distinct,
    Drop,
    DropIndexes,
    EstimatedDocumentCount,
    Find,
    FindOne,
    FindOneAndDelete,
    FindOneAndReplace,
    FindOneAndUpdate,
    InsertMany,
    InsertOne,
    ListIndexes,
    Rename,
    ReplaceOne,
    Truncate,
    UpdateMany,
    UpdateOne,
}

impl Verb {
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// In the order of their declaration.
    pub(crate) const ALL: [Self; 24] = [
        Self::Aggregate,
        Self::BulkWrite,
        Self::CountDocuments,
        Self::CreateCollection,
        Self::CreateIndexes,
        Self::DeleteMany,
        Self::DeleteOne,
        Self::Distinct,
        Self::Drop,
        Self::DropIndexes,
        Self::EstimatedDocumentCount,
        Self::Find,
        Self::FindOne,
        Self::FindOneAndDelete,
        Self::FindOneAndReplace,
        Self::FindOneAndUpdate,
        Self::InsertMany,
        Self::InsertOne,
        Self::ListIndexes,
        Self::Rename,
        Self::ReplaceOne,
        Self::Truncate,
        Self::UpdateMany,
        Self::UpdateOne,
    ];

    /// The name of the method.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Aggregate => "aggregate",
            Self::BulkWrite => "bulk_write",
            Self::CountDocuments => "count_documents",
            Self::CreateCollection => "create_collection",
            Self::CreateIndexes => "create_indexes",
            Self::DeleteMany => "delete_many",
            Self::DeleteOne => "delete_one",
            Self::Distinct => "distinct",
            Self::Drop => "drop",
            Self::DropIndexes => "drop_indexes",
            Self::EstimatedDocumentCount => "estimated_document_count",
            Self::Find => "find",
            Self::FindOne => "find_one",
            Self::FindOneAndDelete => "find_one_and_delete",
            Self::FindOneAndReplace => "find_one_and_replace",
            Self::FindOneAndUpdate => "find_one_and_update",
            Self::InsertMany => "insert_many",
            Self::InsertOne => "insert_one",
            Self::ListIndexes => "list_indexes",
            Self::Rename => "rename",
            Self::ReplaceOne => "replace_one",
            Self::Truncate => "truncate",
            Self::UpdateMany => "update_many",
            Self::UpdateOne => "update_one",
        }
    }
}
