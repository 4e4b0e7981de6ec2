//! What a caller can ask of sequences and auto-increment fields: SequoiaDB's options, by builder or by document.

use bson::{Bson, Document};
use sequence::attributes::{Contract, OptionValue, Options};
use sequence::auto_increment::{FieldOptions, Generated, OnTruncate};

use crate::error::{Error, Result};

/// An auto-increment field: its path, its mode, and the options of the sequence behind it.
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
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct AutoIncrementBuilder {
    options: FieldOptions,
}

/// Options of a sequence, to create or to alter one.
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
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SequenceOptionsBuilder {
    options: Options,
}

impl AutoIncrement {
    /// Starts a definition. The field is required.
    pub fn builder() -> AutoIncrementBuilder {
        AutoIncrementBuilder::default()
    }
}

impl SequenceOptions {
    /// Starts a set of options.
    pub fn builder() -> SequenceOptionsBuilder {
        SequenceOptionsBuilder::default()
    }
}

/// The setters of a sequence's options on a builder, which finds them by `$self.options…`.
macro_rules! sequence_setters {
    ($builder:ident, $($place:ident).+) => {
        impl $builder {
            /// Distance from one value to the next: within ±2147483647 and not 0. Default 1.
            pub fn increment(mut self, increment: i64) -> Self {
                self.$($place).+.increment = Some(increment);
                self
            }

            /// The first value. Default 1, or -1 if the increment is negative.
            pub fn start_value(mut self, value: i64) -> Self {
                self.$($place).+.start_value = Some(value);
                self
            }

            /// The least value. Default 1, or the least 64-bit integer if the increment is negative.
            pub fn min_value(mut self, value: i64) -> Self {
                self.$($place).+.min_value = Some(value);
                self
            }

            /// The greatest value. Default the greatest 64-bit integer, or -1 if the increment is negative.
            pub fn max_value(mut self, value: i64) -> Self {
                self.$($place).+.max_value = Some(value);
                self
            }

            /// The value that counts as used last; only to change a sequence, also backwards.
            pub fn current_value(mut self, value: i64) -> Self {
                self.$($place).+.current_value = Some(value);
                self
            }

            /// How many values one durable write reserves: 1 to 2147483647. Default 1000.
            pub fn cache_size(mut self, values: i64) -> Self {
                self.$($place).+.cache_size = Some(values);
                self
            }

            /// How many values an acquirer takes from the reserve at once: 1 to the cache size. Default 1000.
            pub fn acquire_size(mut self, values: i64) -> Self {
                self.$($place).+.acquire_size = Some(values);
                self
            }

            /// Whether to start over at the other end when the values are used up. Default `false`.
            pub fn cycled(mut self, cycled: bool) -> Self {
                self.$($place).+.cycled = Some(cycled);
                self
            }

            /// What is promised of order and completeness. Default [`Contract::Fast`].
            pub fn contract(mut self, contract: Contract) -> Self {
                self.$($place).+.contract = Some(contract);
                self
            }
        }
    };
}

sequence_setters!(AutoIncrementBuilder, options.sequence);
sequence_setters!(SequenceOptionsBuilder, options);

impl AutoIncrementBuilder {
    /// The field's dotted path.
    pub fn field(mut self, path: impl Into<String>) -> Self {
        self.options.field = Some(path.into());
        self
    }

    /// What an insert does with a value that the document brings. Default [`Generated::Default`].
    pub fn generated(mut self, generated: Generated) -> Self {
        self.options.generated = Some(generated);
        self
    }

    /// Whether an explicit null counts as no value. Default `false`.
    pub fn generate_on_null(mut self, generate: bool) -> Self {
        self.options.generate_on_null = Some(generate);
        self
    }

    /// Whether to start behind the greatest integer that the collection has in the field (the least, if the
    /// increment is negative); only to create a field. Default `false`.
    pub fn start_from_existing(mut self, start: bool) -> Self {
        self.options.start_from_existing = Some(start);
        self
    }

    /// The value up to which all values count as used: the first one that is generated lies strictly beyond it. Only to
    /// create a field; it is what a dump remembers of a sequence. None do by default.
    pub fn used_up_to(mut self, value: i64) -> Self {
        self.options.used_up_to = Some(value);
        self
    }

    /// What truncating the collection does to the sequence. Default [`OnTruncate::Restart`].
    pub fn on_truncate(mut self, on_truncate: OnTruncate) -> Self {
        self.options.on_truncate = Some(on_truncate);
        self
    }

    /// The definition.
    pub fn build(self) -> AutoIncrement {
        AutoIncrement { options: self.options }
    }
}

impl SequenceOptionsBuilder {
    /// The options.
    pub fn build(self) -> SequenceOptions {
        SequenceOptions { options: self.options }
    }
}

impl TryFrom<Document> for AutoIncrement {
    type Error = Error;

    /// Reads `{Field, Increment, StartValue, …, Generated}` with the names and types of SequoiaDB. Integers may have 32
    /// or 64 bits; anything else is refused.
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

    /// Reads `{Increment, StartValue, …}` as [`AutoIncrement`] is read.
    fn try_from(document: Document) -> Result<Self> {
        let mut options = Options::default();
        for (name, value) in &document {
            options.set(name, option_value(value), "a sequence")?;
        }
        Ok(Self { options })
    }
}

/// A value as far as options of sequences look at it.
pub(crate) fn option_value(value: &Bson) -> OptionValue<'_> {
    match value {
        Bson::Int32(value) => OptionValue::Integer((*value).into()),
        Bson::Int64(value) => OptionValue::Integer(*value),
        Bson::Boolean(value) => OptionValue::Boolean(*value),
        Bson::String(value) => OptionValue::Text(value),
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
