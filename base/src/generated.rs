//! The values that an insert generated for auto-increment fields, as results show them.

use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use smallvec::SmallVec;

/// The values that were generated for one document, by field.
///
/// ```
/// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let db = client.database("shop");
/// db.create_collection("orders").auto_increment(AutoIncrement::builder().field("number").build()).run()?;
/// let inserted = db.collection::<Document>("orders").insert_one(doc! { "item": "lamp" }).run()?;
/// assert_eq!(inserted.generated.get("number"), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct GeneratedValues {
    // Room for one value: most collections have one such field, and an insert then allocates nothing.
    values: SmallVec<[(Arc<str>, i64); 1]>,
}

impl GeneratedValues {
    #[inline]
    #[doc(hidden)]
    pub fn of_one(field: &Arc<str>, value: i64) -> Self {
        Self { values: SmallVec::from_buf([(Arc::clone(field), value)]) }
    }

    #[doc(hidden)]
    pub fn push(&mut self, field: &Arc<str>, value: i64) {
        self.values.push((Arc::clone(field), value));
    }

    /// Puts the values into the order of their fields.
    #[doc(hidden)]
    pub fn sort(&mut self) {
        // A collection has one such field as a rule, and then there is nothing to sort.
        if self.values.len() > 1 {
            self.values.sort_unstable();
        }
    }

    /// The first of the values: `lastGenerateID` of a result.
    #[inline]
    #[doc(hidden)]
    pub fn first(&self) -> Option<i64> {
        self.values.first().map(|&(_, value)| value)
    }

    /// The value that was generated for the field at a dotted path. `None` if the document brought one.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let db = Client::open(folder.path().join("db"))?.database("shop");
    /// # let field = |path| AutoIncrement::builder().field(path).build();
    /// db.create_collection("orders").auto_increment(field("meta.number")).run()?;
    /// let orders = db.collection::<Document>("orders");
    /// assert_eq!(orders.insert_one(doc! {}).run()?.generated.get("meta.number"), Some(1));
    /// let explicit = orders.insert_one(doc! { "meta": { "number": 7 } }).run()?;
    /// assert_eq!(explicit.generated.get("meta.number"), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self, field: &str) -> Option<i64> {
        // In order: a collection has at most 64 of these fields.
        self.values.iter().find(|(own, _)| **own == *field).map(|&(_, value)| value)
    }

    /// Fields and values, ascending by field.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let db = Client::open(folder.path().join("db"))?.database("shop");
    /// # let field = |path| AutoIncrement::builder().field(path).build();
    /// db.create_collection("orders").auto_increment(field("number")).auto_increment(field("line")).run()?;
    /// let inserted = db.collection::<Document>("orders").insert_one(doc! { "item": "lamp" }).run()?;
    /// assert_eq!(inserted.generated.iter().collect::<Vec<_>>(), [("line", 1), ("number", 1)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.values.iter().map(|(field, value)| (&**field, *value))
    }

    /// The number of values that were generated for the document.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether no value was generated for the document.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl fmt::Debug for GeneratedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for GeneratedValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (field, value) in self.iter() {
            map.serialize_entry(field, &value)?;
        }
        map.end()
    }
}
