//! The options of sequences and auto-increment fields. They are SequoiaDB's, by a builder or by a document.

use base::error::{Error, Result};
use bson::{Bson, Document};
use sequence::attributes::{Contract, OptionValue, Options};
use sequence::auto_increment::{FieldOptions, Generated, OnTruncate};

/// The definition of an auto-increment field: its path, its mode, and the options of its sequence.
///
/// ```
/// use cairndb::{AutoIncrement, Client, Contract, bson::{Document, doc}};
///
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let db = client.database("shop");
/// db.create_collection("invoices")
///     .auto_increment(AutoIncrement::builder().field("number").start_value(1000).contract(Contract::Gapless).build())
///     .run()?;
/// let invoices = db.collection::<Document>("invoices");
/// let inserted = invoices.insert_one(doc! { "total": 20 }).run()?;
/// assert_eq!(inserted.generated.get("number"), Some(1000));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoIncrement {
    pub(crate) options: FieldOptions,
}

/// Builds an [`AutoIncrement`].
///
/// ```
/// # use cairndb::{AutoIncrement, Client, bson::{Document, doc}};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let number = AutoIncrement::builder().field("number").start_value(1000).increment(10).build();
/// let invoices = client.database("shop").collection::<Document>("invoices");
/// invoices.create_auto_increment(number).run()?;
///
/// let inserted = invoices.insert_many([doc! { "total": 20 }, doc! { "total": 30 }]).run()?;
/// assert_eq!(inserted.generated[&1].get("number"), Some(1010));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct AutoIncrementBuilder {
    options: FieldOptions,
}

/// The options of a sequence, to create or to alter one.
///
/// ```
/// use cairndb::SequenceOptions;
///
/// let tens = SequenceOptions::builder().increment(10).start_value(100).build();
/// let same = SequenceOptions::try_from(cairndb::bson::doc! { "Increment": 10, "StartValue": 100 })?;
/// assert_eq!(tens, same);
/// # Ok::<(), cairndb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    pub(crate) options: Options,
}

/// Builds [`SequenceOptions`].
///
/// ```
/// # use cairndb::{Client, SequenceOptions};
/// # fn main() -> cairndb::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let client = Client::open(folder.path().join("db"))?;
/// let options = SequenceOptions::builder().start_value(100).increment(-1).min_value(-9_999).max_value(100).build();
/// let shop = client.database("shop");
/// shop.create_sequence("countdown").with_options(options).run()?;
/// let first = shop.sequence("countdown").fetch(3).run()?;
/// assert_eq!(first.values().collect::<Vec<_>>(), [100, 99, 98]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SequenceOptionsBuilder {
    options: Options,
}

impl AutoIncrement {
    /// Starts a definition. Its field is required.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, bson::doc};
    /// let number = AutoIncrement::builder().field("number").build();
    /// let same = AutoIncrement::try_from(doc! { "Field": "number" })?;
    /// assert_eq!(number, same);
    /// # Ok::<(), cairndb::Error>(())
    /// ```
    pub fn builder() -> AutoIncrementBuilder {
        AutoIncrementBuilder::default()
    }
}

impl SequenceOptions {
    /// Starts a set of options. Options that are not set keep their defaults, or in an alteration stay as they are.
    ///
    /// ```
    /// # use cairndb::SequenceOptions;
    /// assert_eq!(SequenceOptions::builder().build(), SequenceOptions::default());
    /// ```
    pub fn builder() -> SequenceOptionsBuilder {
        SequenceOptionsBuilder::default()
    }
}

/// Implements the setters of a sequence's options on a builder, which has them in its field `$($path).+`. In the examples
/// `$start` starts the builder.
macro_rules! sequence_setters {
    ($builder:ident, $($path:ident).+, $start:literal, $document:literal) => {
        impl $builder {
            /// The difference between a value and the next: not 0, and from -2147483647 to 2147483647. The default
            /// is 1.
            ///
            /// ```
            /// # use cairndb::{AutoIncrement, Contract, SequenceOptions, bson::doc};
            #[doc = concat!(" let built = ", $start, ".increment(10).build();")]
            #[doc = concat!(" assert_eq!(built, ", $document, "\"Increment\": 10 })?);")]
            /// # Ok::<(), cairndb::Error>(())
            /// ```
            pub fn increment(mut self, increment: i64) -> Self {
                self.$($path).+.increment = Some(increment);
                self
            }

            /// The first value. The default is 1, or -1 if the increment is negative.
            ///
            /// ```
            /// # use cairndb::{AutoIncrement, Contract, SequenceOptions, bson::doc};
            #[doc = concat!(" let built = ", $start, ".start_value(100).build();")]
            #[doc = concat!(" assert_eq!(built, ", $document, "\"StartValue\": 100 })?);")]
            /// # Ok::<(), cairndb::Error>(())
            /// ```
            pub fn start_value(mut self, value: i64) -> Self {
                self.$($path).+.start_value = Some(value);
                self
            }

            /// The smallest value. The default is 1, or the smallest 64-bit integer if the increment is negative.
            ///
            /// ```
            /// # use cairndb::{AutoIncrement, Contract, SequenceOptions, bson::doc};
            #[doc = concat!(" let built = ", $start, ".min_value(0).build();")]
            #[doc = concat!(" assert_eq!(built, ", $document, "\"MinValue\": 0 })?);")]
            /// # Ok::<(), cairndb::Error>(())
            /// ```
            pub fn min_value(mut self, value: i64) -> Self {
                self.$($path).+.min_value = Some(value);
                self
            }

            /// The largest value. The default is the largest 64-bit integer, or -1 if the increment is negative.
            ///
            /// ```
            /// # use cairndb::{AutoIncrement, Contract, SequenceOptions, bson::doc};
            #[doc = concat!(" let built = ", $start, ".max_value(999).build();")]
            #[doc = concat!(" assert_eq!(built, ", $document, "\"MaxValue\": 999 })?);")]
            /// # Ok::<(), cairndb::Error>(())
            /// ```
            pub fn max_value(mut self, value: i64) -> Self {
                self.$($path).+.max_value = Some(value);
                self
            }

            /// The value that counts as the last used one. Only an alteration can have it. It can also go back.
            ///
            /// ```
            /// # use cairndb::{AutoIncrement, Contract, SequenceOptions, bson::doc};
            #[doc = concat!(" let built = ", $start, ".current_value(500).build();")]
            #[doc = concat!(" assert_eq!(built, ", $document, "\"CurrentValue\": 500 })?);")]
            /// # Ok::<(), cairndb::Error>(())
            /// ```
            pub fn current_value(mut self, value: i64) -> Self {
                self.$($path).+.current_value = Some(value);
                self
            }

            /// The number of values that one durable write reserves: 1 to 2147483647. The default is 1000.
            ///
            /// ```
            /// # use cairndb::{AutoIncrement, Contract, SequenceOptions, bson::doc};
            #[doc = concat!(" let built = ", $start, ".cache_size(10_000).build();")]
            #[doc = concat!(" assert_eq!(built, ", $document, "\"CacheSize\": 10_000 })?);")]
            /// # Ok::<(), cairndb::Error>(())
            /// ```
            pub fn cache_size(mut self, values: i64) -> Self {
                self.$($path).+.cache_size = Some(values);
                self
            }

            /// The number of values that an acquirer gets from the reserve at once: 1 to the cache size. The default
            /// is 1000.
            ///
            /// ```
            /// # use cairndb::{AutoIncrement, Contract, SequenceOptions, bson::doc};
            #[doc = concat!(" let built = ", $start, ".acquire_size(100).build();")]
            #[doc = concat!(" assert_eq!(built, ", $document, "\"AcquireSize\": 100 })?);")]
            /// # Ok::<(), cairndb::Error>(())
            /// ```
            pub fn acquire_size(mut self, values: i64) -> Self {
                self.$($path).+.acquire_size = Some(values);
                self
            }

            /// Whether the sequence starts again at its other end when all values are used. The default is `false`.
            ///
            /// ```
            /// # use cairndb::{AutoIncrement, Contract, SequenceOptions, bson::doc};
            #[doc = concat!(" let built = ", $start, ".cycled(true).build();")]
            #[doc = concat!(" assert_eq!(built, ", $document, "\"Cycled\": true })?);")]
            /// # Ok::<(), cairndb::Error>(())
            /// ```
            pub fn cycled(mut self, cycled: bool) -> Self {
                self.$($path).+.cycled = Some(cycled);
                self
            }

            /// The promise of the sequence about the order and completeness of its values. The default is
            /// [`Contract::Fast`].
            ///
            /// A recipe: [invoices without gaps](crate::guide::recipes#invoices-without-gaps).
            ///
            /// ```
            /// # use cairndb::{AutoIncrement, Contract, SequenceOptions, bson::doc};
            #[doc = concat!(" let built = ", $start, ".contract(Contract::Gapless).build();")]
            #[doc = concat!(" assert_eq!(built, ", $document, "\"Contract\": \"gapless\" })?);")]
            /// # Ok::<(), cairndb::Error>(())
            /// ```
            pub fn contract(mut self, contract: Contract) -> Self {
                self.$($path).+.contract = Some(contract);
                self
            }

            /// The value up to which all values count as used: the first generated value comes after it, and the ledger begins
            /// without a gap. Only a creation can have it. It restores a sequence from a dump. By default no values count as used.
            ///
            /// ```
            /// # use cairndb::{AutoIncrement, Contract, SequenceOptions, bson::doc};
            #[doc = concat!(" let built = ", $start, ".used_up_to(41).build();")]
            #[doc = concat!(" assert_eq!(built, ", $document, "\"UsedUpTo\": 41 })?);")]
            /// # Ok::<(), cairndb::Error>(())
            /// ```
            pub fn used_up_to(mut self, value: i64) -> Self {
                self.$($path).+.used_up_to = Some(value);
                self
            }
        }
    };
}

sequence_setters!(
    AutoIncrementBuilder,
    options.sequence,
    r#"AutoIncrement::builder().field("number")"#,
    r#"AutoIncrement::try_from(doc! { "Field": "number", "#
);
sequence_setters!(
    SequenceOptionsBuilder,
    options,
    "SequenceOptions::builder()",
    "SequenceOptions::try_from(doc! { "
);

impl AutoIncrementBuilder {
    /// The dotted path of the field.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, Generated, OnTruncate, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("badge.number").build();
    /// people.create_auto_increment(number).run()?;
    /// assert_eq!(people.insert_one(doc! { "name": "Ada" }).run()?.generated.get("badge.number"), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn field(mut self, path: impl Into<String>) -> Self {
        self.options.field = Some(path.into());
        self
    }

    /// Sets the treatment of a value that the document has in the field. The default is [`Generated::Default`].
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, Generated, OnTruncate, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").generated(Generated::Always).build();
    /// people.create_auto_increment(number).run()?;
    /// // The value of the document is replaced.
    /// assert_eq!(people.insert_one(doc! { "number": 7 }).run()?.generated.get("number"), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn generated(mut self, generated: Generated) -> Self {
        self.options.generated = Some(generated);
        self
    }

    /// Whether a null in the field counts as no value. The default is `false`.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, Generated, OnTruncate, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").generate_on_null(true).build();
    /// people.create_auto_increment(number).run()?;
    /// let with_null = doc! { "number": null };
    /// assert_eq!(people.insert_one(with_null).run()?.generated.get("number"), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn generate_on_null(mut self, generate: bool) -> Self {
        self.options.generate_on_null = Some(generate);
        self
    }

    /// Whether the sequence starts after the largest integer that stored documents have in the field, or after the smallest
    /// if the increment is negative. Only the creation of a field can have it. The default is `false`.
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, Generated, OnTruncate, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// people.insert_one(doc! { "number": 41 }).run()?;
    /// let number = AutoIncrement::builder().field("number").start_from_existing(true).build();
    /// people.create_auto_increment(number).run()?;
    /// assert_eq!(people.insert_one(doc! { "name": "Ada" }).run()?.generated.get("number"), Some(42));
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_from_existing(mut self, start: bool) -> Self {
        self.options.start_from_existing = Some(start);
        self
    }

    /// Sets the effect of [`truncate`](crate::Collection::truncate) on the sequence. The default is
    /// [`OnTruncate::Restart`].
    ///
    /// ```
    /// # use cairndb::{AutoIncrement, Client, Generated, OnTruncate, bson::{Document, doc}};
    /// # fn main() -> cairndb::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let client = Client::open(folder.path().join("db"))?;
    /// # let people = client.database("app").collection::<Document>("people");
    /// let number = AutoIncrement::builder().field("number").on_truncate(OnTruncate::Continue).build();
    /// people.create_auto_increment(number).run()?;
    /// people.insert_one(doc! { "name": "Ada" }).run()?;
    /// people.truncate().run()?;
    /// assert_eq!(people.insert_one(doc! { "name": "Grace" }).run()?.generated.get("number"), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_truncate(mut self, on_truncate: OnTruncate) -> Self {
        self.options.on_truncate = Some(on_truncate);
        self
    }

    /// Returns the definition.
    pub fn build(self) -> AutoIncrement {
        AutoIncrement { options: self.options }
    }
}

impl SequenceOptionsBuilder {
    /// Returns the options.
    pub fn build(self) -> SequenceOptions {
        SequenceOptions { options: self.options }
    }
}

impl TryFrom<Document> for AutoIncrement {
    type Error = Error;

    /// Reads a document `{Field, Increment, StartValue, …, Generated}`, with the names and types of SequoiaDB. Numbers must
    /// be int32 or int64. Unknown fields and other types are rejected.
    fn try_from(document: Document) -> Result<Self> {
        let mut options = FieldOptions::default();
        for (name, value) in &document {
            options.set(name, option_value(value))?;
        }
        Ok(Self { options })
    }
}

impl TryFrom<Document> for SequenceOptions {
    type Error = Error;

    /// Reads a document `{Increment, StartValue, …}`, with the names and types of SequoiaDB. Numbers must be int32 or int64.
    /// Unknown fields and other types are rejected.
    fn try_from(document: Document) -> Result<Self> {
        let mut options = Options::default();
        for (name, value) in &document {
            options.set(name, option_value(value), "a sequence")?;
        }
        Ok(Self { options })
    }
}

/// Converts a value to the types that options can have.
pub(crate) fn option_value(value: &Bson) -> OptionValue<'_> {
    match value {
        Bson::Int32(value) => OptionValue::Integer((*value).into()),
        Bson::Int64(value) => OptionValue::Integer(*value),
        Bson::Boolean(value) => OptionValue::Boolean(*value),
        Bson::String(value) => OptionValue::Text(value),
        // Rejected even if it is a whole number, as in SequoiaDB. The names are for the message.
        Bson::Double(_) => OptionValue::Other("a double"),
        Bson::Decimal128(_) => OptionValue::Other("a decimal"),
        Bson::Null => OptionValue::Other("null"),
        Bson::Array(_) => OptionValue::Other("an array"),
        Bson::Document(_) => OptionValue::Other("a document"),
        Bson::RegularExpression(_)
        | Bson::JavaScriptCode(_)
        | Bson::JavaScriptCodeWithScope(_)
        | Bson::Timestamp(_)
        | Bson::Binary(_)
        | Bson::ObjectId(_)
        | Bson::DateTime(_)
        | Bson::Symbol(_)
        | Bson::Undefined
        | Bson::MaxKey
        | Bson::MinKey
        | Bson::DbPointer(_) => OptionValue::Other("a value of another type"),
    }
}
