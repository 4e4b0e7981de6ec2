//! The catalog entry: one small BSON document for each collection, under its id in family `meta`.
//!
//! ```text
//! { db: string, name: string, indexes: [ { id: int64, name: string, key: document, unique: bool, sparse: bool,
//!     arrays: [ int64 ], whole: bool, partialFilterExpression?: document, expireAfterSeconds?: int32,
//!     hidden?: bool, wildcardProjection?: document, collation?: document } ],
//!   autoIncrement: [ { field: string, generated: string, generateOnNull: bool, onTruncate: string, sequence: int64 } ] }
//! ```
//! A view has `{ db: string, name: string, viewOn: string, pipeline: [ document ], collation?: document }`, and no `indexes`.
//!
//! A capped collection has `cappedIndexes` in place of `indexes`, whether or not its documents are validated, and
//! `capped: { size: int64, max?: int64, order: int64 }`.
//!
//! One that was declared to be clustered has `clusteredIndex: { name: string }`. Any other collection whose documents are
//! validated has `validatedIndexes` in place of `indexes`, and `validator`, `validationLevel` and `validationAction` as far
//! as they were set: a library that does not know these fields misses `indexes`, and refuses the folder. It must not store
//! documents that the collection refuses.
//!
//! A collection with a collation of its own has `collation: document`. If it or an index of it has one, there is
//! `collatedIndexes` in place of all of these, and `collationRules: string`: the version of the rules that made the sort keys in
//! the entries. Another version is refused by its name. Its keys would be in another order.
//!
//! One of format version 5 has `shortKeys: bool`, and `longIds: bool` once the key of an `_id` was shortened; a logged one `changeLog: true`.

use std::sync::Arc;

use base::error::{Error, Result};
use base::namespace::Namespace;
use bson::{Bson, Document, doc};
use index::collation::{Collation, HAS_RULES, version};
use index::key::LongKeys;
use index::multikey::ArrayComponents;
use index::spec::{IndexSpec, Sparseness, SpecOptions, Uniqueness};
use index::validate::{DOCUMENT_BYTES_MAX, validate};
use query::code::Code;
use sequence::attributes::OptionValue;
use sequence::auto_increment::{Field, FieldOptions};
use store::Family;
use store::keys::{CollectionId, IndexId, SequenceId};
use store::leaf_switch::LeafSwitch;

use crate::catalog::capped::{CAPPED, Capped};
use crate::catalog::clustered::{CLUSTERED_INDEX, Clustered};
use crate::catalog::collection::Definition;
use crate::catalog::indexes::{EntryDetail, Index, IndexUses};
use crate::catalog::multikey::IndexArrays;
use crate::catalog::record_keys::RecordKeys;
use crate::catalog::sequences::AutoField;
use crate::catalog::settings::{
    COLLATION, IndexSettings, WILDCARD_PROJECTION, decode_collation, describe_collation,
};
use crate::catalog::validation::{VALIDATION_ACTION, VALIDATION_LEVEL, VALIDATOR, Validation};
use crate::catalog::views::{PIPELINE, VIEW_ON, ViewDefinition};
use crate::document::field_tree::check_depth;
use crate::options::PlantedFault;

/// The fields of the indexes: of a collection without validation, with it, of one that is capped, and of one with a collation.
const INDEXES: &str = "indexes";
const CAPPED_INDEXES: &str = "cappedIndexes";
const VALIDATED_INDEXES: &str = "validatedIndexes";
const COLLATED_INDEXES: &str = "collatedIndexes";

/// The version of the rules by which sort keys were made.
const COLLATION_RULES: &str = "collationRules";

/// Whether keys of long values are shortened, and whether those of `_id`s ever were.
const SHORT_KEYS: &str = "shortKeys";
const LONG_IDS: &str = "longIds";

/// Whether its changes are logged. A library that does not know the log refuses the folder, and leaves no hole in it.
const CHANGE_LOG: &str = "changeLog";
/// Whether the log has its documents as they were before and after their changes.
const IMAGES: &str = "prePostImages";

/// All fields of a collection's entry.
const KNOWN: [&str; 18] = [
    "autoIncrement",
    CAPPED,
    CAPPED_INDEXES,
    CHANGE_LOG,
    CLUSTERED_INDEX,
    COLLATED_INDEXES,
    COLLATION,
    COLLATION_RULES,
    "db",
    INDEXES,
    LONG_IDS,
    "name",
    IMAGES,
    SHORT_KEYS,
    VALIDATED_INDEXES,
    VALIDATION_ACTION,
    VALIDATION_LEVEL,
    VALIDATOR,
];

/// All fields of a view's entry.
const KNOWN_OF_VIEW: [&str; 5] = [COLLATION, "db", "name", PIPELINE, VIEW_ON];

/// A decoded entry.
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is decoded")]
pub(crate) enum Entry {
    Collection(CollectionEntry),
    View(ViewEntry),
}

impl Entry {
    pub(crate) fn namespace(&self) -> &Namespace {
        match self {
            Self::Collection(entry) => &entry.namespace,
            Self::View(entry) => &entry.namespace,
        }
    }
}

/// The entry of a view.
pub(crate) struct ViewEntry {
    pub(crate) namespace: Namespace,
    pub(crate) definition: ViewDefinition,
}

/// The entry of a collection. Its fields are not bound to their sequences yet.
pub(crate) struct CollectionEntry {
    pub(crate) namespace: Namespace,
    pub(crate) indexes: Vec<Index>,
    pub(crate) fields: Vec<(Field, SequenceId)>,
    pub(crate) validation: Validation,
    pub(crate) capped: Option<Capped>,
    pub(crate) collation: Collation,
    pub(crate) clustered: Option<Clustered>,
    pub(crate) record_keys: RecordKeys,
    /// Whether its changes are logged.
    pub(crate) is_logged: bool,
    /// Whether the log has its documents as they were before and after their changes.
    pub(crate) keeps_images: bool,
}

impl CollectionEntry {
    /// The same entry in a store with a fault.
    pub(crate) fn with_fault(self, fault: PlantedFault) -> Self {
        let record_keys = self.record_keys.with_fault(fault);
        let of_index = |index: Index| {
            let spec = index.spec.with_long_keys(record_keys.long_keys);
            Index { leaves: Arc::new(LeafSwitch::off()), spec, ..index }
        };
        Self { indexes: self.indexes.into_iter().map(of_index).collect(), record_keys, ..self }
    }
}

pub(crate) fn encode(namespace: &Namespace, definition: &Definition) -> Result<Vec<u8>> {
    let Definition {
        indexes,
        fields,
        validation,
        capped,
        collation,
        clustered,
        record_keys,
        log,
        keeps_images,
    } = definition;
    let is_collated =
        !collation.is_simple() || indexes.iter().any(|index| !index.spec.collation().is_simple());
    let indexes: Vec<Bson> = indexes.iter().map(|index| Bson::Document(encode_index(index))).collect();
    let fields: Vec<Bson> = fields.iter().map(|field| Bson::Document(encode_field(field))).collect();
    // The order of the fields is that of the description in the documentation; no reader depends on it.
    let mut entry = doc! { "db": &namespace.db, "name": &namespace.coll };
    let field = match (is_collated, capped, validation) {
        (true, _, _) => COLLATED_INDEXES,
        (false, Some(_), _) => CAPPED_INDEXES,
        (false, None, Some(_)) => VALIDATED_INDEXES,
        (false, None, None) => INDEXES,
    };
    entry.insert(field, indexes);
    if is_collated {
        entry.insert(COLLATION_RULES, rules());
        describe_collation(collation, &mut entry);
    }
    entry.insert("autoIncrement", fields);
    if let Some(validation) = validation {
        validation.describe(&mut entry);
    }
    if let Some(capped) = capped {
        entry.insert(CAPPED, capped.encode());
    }
    if let Some(clustered) = clustered {
        entry.insert(CLUSTERED_INDEX, clustered.encode());
    }
    if log.is_some() {
        entry.insert(CHANGE_LOG, true);
    }
    if *keeps_images {
        entry.insert(IMAGES, true);
    }
    note_keys(&mut entry, record_keys.long_keys, record_keys.announced().has_shortened());
    stored(namespace, &entry)
}

pub(crate) fn encode_view(namespace: &Namespace, definition: &ViewDefinition) -> Result<Vec<u8>> {
    let mut entry = doc! { "db": &namespace.db, "name": &namespace.coll };
    definition.describe(&mut entry);
    stored(namespace, &entry)
}

/// The bytes of an entry. The next open reads them like every document, and would refuse what is refused here.
fn stored(namespace: &Namespace, entry: &Document) -> Result<Vec<u8>> {
    let bytes = entry.to_vec()?;
    if bytes.len() > DOCUMENT_BYTES_MAX {
        let message = format!(
            "the definition of {namespace} takes {} bytes in the catalog, more than {DOCUMENT_BYTES_MAX}",
            bytes.len()
        );
        return Err(Error::command(Code::BSON_OBJECT_TOO_LARGE, message));
    }
    // A filter of an index, or a validator, may be nested as deeply as a command: the entry puts levels around it.
    match validate(&bytes).map(|_| ()) {
        Ok(()) => Ok(bytes),
        Err(error) => {
            let message = format!("the definition of {namespace} cannot be stored: {error}");
            Err(Error::command(Code::BAD_VALUE, message))
        }
    }
}

/// The name of the field that has the indexes in a stored entry.
pub(crate) fn indexes_field(entry: &Document) -> &'static str {
    let named = [COLLATED_INDEXES, CAPPED_INDEXES, VALIDATED_INDEXES];
    named.into_iter().find(|field| entry.contains_key(field)).unwrap_or(INDEXES)
}

/// Puts into a stored entry what the keys of its records have of long `_id`s, and that some are shortened if they are.
pub(crate) fn note_keys(entry: &mut Document, long_keys: LongKeys, has_shortened: bool) {
    if long_keys != LongKeys::Whole {
        entry.insert(SHORT_KEYS, true);
    }
    if has_shortened {
        entry.insert(LONG_IDS, true);
    }
}

/// Makes a stored entry one of a collection whose changes are not logged.
pub(crate) fn forget_log(entry: &mut Document) {
    entry.remove(CHANGE_LOG);
}

/// Makes a stored entry one of these rules, for a caller who makes all of its sort keys anew.
pub(crate) fn renew_rules(entry: &mut Document) {
    if entry.contains_key(COLLATION_RULES) {
        entry.insert(COLLATION_RULES, rules());
    }
}

/// Decodes a stored entry.
///
/// # Errors
/// What is damaged in it, and with code 161 an entry whose sort keys were made by other rules than these.
pub(crate) fn decode(id: CollectionId, value: &[u8]) -> Result<Entry> {
    decode_made_by(SortKeyRules::These, id, value)
}

/// By which rules the sort keys of an entry's indexes may have been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SortKeyRules {
    /// Only by those of this version: its entries can be read.
    These,
    /// By any. The caller reads no entries.
    Any,
}

/// Decodes a stored entry whose sort keys were made by some rules.
pub(crate) fn decode_made_by(rules: SortKeyRules, id: CollectionId, value: &[u8]) -> Result<Entry> {
    let damaged = |reason: String| Error::corruption(Family::Meta.name(), &id.catalog_key(), reason);
    // Validated first: `Document` would accept bytes that are not well-formed.
    let valid = validate(value).map_err(|error| damaged(error.to_string()))?;
    let entry = Document::try_from(valid.as_raw()).map_err(|error| damaged(error.to_string()))?;
    let text = |field: &str| {
        entry.get_str(field).map(str::to_owned).map_err(|_| damaged(format!("{field} is not a string")))
    };
    let list = |field: &str| entry.get_array(field).map_err(|_| damaged(format!("{field} is not an array")));
    let namespace =
        Namespace::stored(&text("db")?, &text("name")?).map_err(|error| damaged(error.to_string()))?;
    let is_view = entry.contains_key(VIEW_ON);
    let known = if is_view { &KNOWN_OF_VIEW[..] } else { &KNOWN[..] };
    // It comes from a later version, to which it means something.
    if let Some(unknown) = entry.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(damaged(format!(
            "{namespace} has the field {unknown}, which this version does not know"
        )));
    }
    match entry.get(COLLATION_RULES) {
        // A view stores no sort keys, so it needs some rules and not these.
        None if entry.contains_key(COLLATION) && !HAS_RULES => check_rules(&namespace, "of its language")?,
        Some(Bson::String(version)) if rules == SortKeyRules::These => check_rules(&namespace, version)?,
        None | Some(Bson::String(_)) => {}
        Some(_) => return Err(damaged(format!("{namespace}: {COLLATION_RULES} is not a string"))),
    }
    if is_view {
        let definition = ViewDefinition::decode(&entry);
        let definition = definition.map_err(|problem| damaged(format!("{namespace}: {problem}")))?;
        return Ok(Entry::View(ViewEntry { namespace, definition }));
    }
    let problem = |problem| damaged(format!("{namespace}: {problem}"));
    let collation = entry.get(COLLATION).map(decode_collation).transpose().map_err(problem)?;
    let collation = collation.unwrap_or_default();
    let flag = |field: &str| match entry.get(field) {
        None => Ok(false),
        Some(Bson::Boolean(flag)) => Ok(*flag),
        Some(_) => Err(damaged(format!("{namespace}: {field} is not a boolean"))),
    };
    // Format versions before 5 did not have the field.
    let long_keys = if flag(SHORT_KEYS)? { LongKeys::Shortened } else { LongKeys::Whole };
    let record_keys = RecordKeys::stored(long_keys, flag(LONG_IDS)?);
    let indexes = list(indexes_field(&entry))?;
    let indexes = indexes.iter().map(|index| decode_index(index, long_keys).map_err(&damaged));
    let fields = list("autoIncrement")?.iter().map(|field| decode_field(field).map_err(&damaged));
    Ok(Entry::Collection(CollectionEntry {
        indexes: indexes.collect::<Result<_>>()?,
        fields: fields.collect::<Result<_>>()?,
        validation: Validation::decode(&entry, &collation).map_err(problem)?,
        capped: entry.get(CAPPED).map(Capped::decode).transpose().map_err(problem)?,
        clustered: entry.get(CLUSTERED_INDEX).map(Clustered::decode).transpose().map_err(problem)?,
        namespace: namespace.clone(),
        collation,
        record_keys,
        is_logged: flag(CHANGE_LOG)?,
        keeps_images: flag(IMAGES)?,
    }))
}

/// The name of the rules that sort keys are made by. Without rules there is no collation whose keys they could be.
fn rules() -> &'static str {
    version::of_rules().unwrap_or_default()
}

/// Refuses sort keys that were made by other rules than these.
fn check_rules(namespace: &Namespace, stored: &str) -> Result<()> {
    let problem = if !HAS_RULES {
        "this build has no rules of languages".to_owned()
    } else if stored != rules() {
        format!(
            "this program has the rules {}, by which other sort keys are made",
            version::described(rules())
        )
    } else {
        return Ok(());
    };
    let message = format!(
        "{namespace} has a collation by the rules {}, and {problem}: open it with the version that made it, or make a new \
         folder with new sort keys: `cairn salvage FOLDER NEW`",
        version::described(stored)
    );
    Err(Error::command(Code::INCOMPATIBLE_COLLATION_VERSION, message).in_namespace(namespace))
}

fn encode_field(field: &AutoField) -> Document {
    doc! {
        "field": field.field.path(),
        "generated": field.field.generated.name(),
        "generateOnNull": field.field.generate_on_null,
        "onTruncate": field.field.on_truncate.name(),
        // BSON has no unsigned integers; the bits stay the same.
        "sequence": field.state.identity.id.0.cast_signed(),
    }
}

fn decode_field(field: &Bson) -> std::result::Result<(Field, SequenceId), String> {
    let fields = field.as_document().ok_or("an auto-increment field is not a document")?;
    let text = |name: &str| fields.get_str(name).map_err(|_| format!("{name} of a field is not a string"));
    let mut options = FieldOptions::default();
    for (option, value) in [
        ("Field", OptionValue::Text(text("field")?)),
        ("Generated", OptionValue::Text(text("generated")?)),
        ("OnTruncate", OptionValue::Text(text("onTruncate")?)),
    ] {
        // Set like the options of a command, so that a damaged value is refused by the same rules.
        options.set(option, value).map_err(|error| error.to_string())?;
    }
    let on_null = fields.get_bool("generateOnNull");
    options.generate_on_null = Some(on_null.map_err(|_| "generateOnNull of a field is not a boolean")?);
    let id = fields.get_i64("sequence").map_err(|_| "sequence of a field is not a 64-bit integer")?;
    let field = Field::create(&options).map_err(|error| error.to_string())?;
    // The path may be valid, and still too deep for a document that gets a value there.
    check_depth(&field).map_err(|error| error.to_string())?;
    Ok((field, SequenceId(id.cast_unsigned())))
}

fn encode_index(index: &Index) -> Document {
    let arrays = index.arrays.announced().into_iter().map(|arrays| Bson::Int64(arrays.bits().cast_signed()));
    let mut entry = doc! {
        "id": i64::from(index.id.0),
        "name": &index.name,
        "key": index.key_pattern(),
        "unique": index.spec.is_unique(),
        "sparse": index.spec.is_sparse(),
        "arrays": arrays.collect::<Vec<_>>(),
        "whole": index.detail == EntryDetail::Whole,
    };
    index.describe_settings(&mut entry);
    entry
}

fn decode_index(index: &Bson, long_keys: LongKeys) -> std::result::Result<Index, String> {
    let fields = index.as_document().ok_or("an index is not a document")?;
    let id = fields
        .get_i64("id")
        .ok()
        .and_then(|id| u32::try_from(id).ok())
        .ok_or("an index's id is not an unsigned 32-bit number")?;
    let name = fields.get_str("name").map_err(|_| "an index's name is not a string")?.to_owned();
    let keys =
        fields.get_document("key").map_err(|_| format!("the key of index {name} is not a document"))?;
    let flag =
        |field| fields.get_bool(field).map_err(|_| format!("{field} of index {name} is not a boolean"));
    let keys = bson::RawDocumentBuf::try_from(keys).map_err(|error| error.to_string())?;
    let options = SpecOptions {
        uniqueness: if flag("unique")? { Uniqueness::Unique } else { Uniqueness::NotUnique },
        sparseness: if flag("sparse")? { Sparseness::Sparse } else { Sparseness::NotSparse },
    };
    let spec = IndexSpec::parse(&keys, options).map_err(|error| error.to_string())?;
    let mut spec = spec.with_long_keys(long_keys);
    if let Some(projection) = fields.get(WILDCARD_PROJECTION) {
        let projection =
            projection.as_document().ok_or("the wildcardProjection of an index is not a document")?;
        let projection = bson::RawDocumentBuf::try_from(projection).map_err(|error| error.to_string())?;
        spec = spec.with_projection(&projection).map_err(|error| error.to_string())?;
    }
    if let Some(collation) = fields.get(COLLATION) {
        spec = spec.with_collation(decode_collation(collation)?);
    }
    // Collected leniently and compared by length below: one check for a wrong type and for a wrong number.
    let bits = fields.get_array("arrays").map_err(|_| format!("arrays of index {name} is not an array"))?;
    let arrays = bits.iter().filter_map(Bson::as_i64).map(i64::cast_unsigned);
    let from_bits = match long_keys {
        LongKeys::Whole => ArrayComponents::from_bits_of_whole_keys,
        LongKeys::Shortened | LongKeys::Colliding => ArrayComponents::from_bits,
    };
    let arrays: Vec<_> = arrays.map(from_bits).collect();
    if arrays.len() != bits.len() || arrays.len() != spec.fields().len() {
        return Err(format!("arrays of index {name} is not a 64-bit integer for each of its fields"));
    }
    // Format version 3 did not have the field.
    let detail = match fields.get("whole") {
        None | Some(Bson::Boolean(false)) => EntryDetail::Fields,
        Some(Bson::Boolean(true)) => EntryDetail::Whole,
        Some(_) => return Err(format!("whole of index {name} is not a boolean")),
    };
    let settings = IndexSettings::decode(fields, spec.collation())
        .map_err(|problem| format!("{problem} of index {name}"))?;
    Ok(Index {
        id: IndexId(id),
        name,
        leaves: Arc::new(LeafSwitch::off()),
        spec,
        detail,
        settings,
        arrays: Arc::new(IndexArrays::of(arrays)),
        uses: Arc::new(IndexUses::starting_now()),
        given_keys: Arc::default(),
    })
}

#[cfg(test)]
mod tests {
    use index::collation::SIMPLE;

    use super::*;
    use crate::catalog::validation::ValidationChange;

    fn namespace() -> Namespace {
        Namespace::new("app", "things")
    }

    fn entry_of(bytes: &[u8]) -> Document {
        Document::from_reader(bytes).expect("an entry")
    }

    /// Libraries that know neither validators nor views read `indexes` as an array, and refuse a folder without it. So this is
    /// what keeps them from storing what a validator refuses.
    #[test]
    fn an_older_library_misses_the_indexes_of_what_it_does_not_know() {
        let plain = Definition::of_indexes(Vec::new());
        assert!(entry_of(&encode(&namespace(), &plain).expect("encoded")).contains_key("indexes"));
        for change in [
            ValidationChange { validator: Some(doc! { "a": 1 }), ..ValidationChange::default() },
            ValidationChange {
                level: Some(crate::options::ValidationLevel::Off),
                ..ValidationChange::default()
            },
        ] {
            let validation = Validation::default().changed(&namespace(), &change, &SIMPLE);
            let validation = validation.expect("a validator");
            let checked = encode(&namespace(), &plain.with_validation(validation)).expect("encoded");
            assert!(!entry_of(&checked).contains_key("indexes"));
        }
        let limits = crate::catalog::capped::CappedLimits { size: 4096, documents_max: Some(5) };
        let capped = Capped { limits, order: store::keys::OrderId(3) };
        let capped = encode(&namespace(), &plain.with_capped(Some(capped))).expect("encoded");
        assert!(!["indexes", "validatedIndexes"].iter().any(|field| entry_of(&capped).contains_key(field)));
        let view =
            ViewDefinition { on: "others".to_owned(), pipeline: Vec::new(), collation: Collation::simple() };
        assert!(!entry_of(&encode_view(&namespace(), &view).expect("encoded")).contains_key("indexes"));
    }

    #[test]
    fn a_field_of_a_later_version_is_refused_by_its_name() {
        let plain = encode(&namespace(), &Definition::of_indexes(Vec::new())).expect("encoded");
        let view =
            ViewDefinition { on: "others".to_owned(), pipeline: Vec::new(), collation: Collation::simple() };
        for entry in [plain, encode_view(&namespace(), &view).expect("encoded")] {
            assert!(decode(CollectionId(1), &entry).is_ok());
            let mut later = entry_of(&entry);
            later.insert("retention", 5);
            let refused = decode(CollectionId(1), &later.to_vec().expect("bytes"));
            let text = refused.err().expect("refused").to_string();
            assert!(text.contains("retention"), "{text}");
        }
    }

    /// An index with a collation, as an entry has it, changed by `change`.
    fn collated(change: impl Fn(&mut Document)) -> Result<Entry> {
        let collation =
            Collation::parse(&bson::rawdoc! { "locale": "en", "strength": 2 }).expect("a collation");
        let spec = IndexSpec::parse(&bson::rawdoc! { "w": 1 }, SpecOptions::default()).expect("a spec");
        let index = Index {
            id: IndexId(5),
            name: "w_1".to_owned(),
            arrays: Arc::new(IndexArrays::none(1)),
            leaves: Arc::new(LeafSwitch::off()),
            spec: spec.with_collation(collation),
            detail: EntryDetail::Whole,
            settings: IndexSettings::default(),
            uses: Arc::new(IndexUses::starting_now()),
            given_keys: Arc::default(),
        };
        let mut entry =
            entry_of(&encode(&namespace(), &Definition::of_indexes(vec![index])).expect("encoded"));
        // Libraries that know no collations miss the indexes, and refuse the folder.
        assert!(!entry.contains_key("indexes") && entry.contains_key("collatedIndexes"));
        change(&mut entry);
        decode(CollectionId(1), &entry.to_vec().expect("bytes"))
    }

    #[test]
    fn a_collation_is_stored_with_the_version_of_its_rules() {
        let Ok(Entry::Collection(entry)) = collated(|_| {}) else { panic!("it was just encoded") };
        let spec = entry.indexes.first().map(|index| index.spec.clone()).expect("one index");
        assert_eq!(spec.collation().document().and_then(|told| told.get_i32("strength").ok()), Some(2));
        let refused = collated(|entry| drop(entry.insert("collationRules", "later"))).err().expect("refused");
        assert_eq!(refused.code(), Some(161), "{refused}");
        let changed = |collation: Bson| {
            let damaged = collated(|entry| {
                let indexes = entry.get_array_mut("collatedIndexes").expect("a list");
                let index = indexes.first_mut().and_then(Bson::as_document_mut).expect("an index");
                index.insert("collation", collation.clone());
            });
            let damaged = damaged.err().expect("refused");
            assert!(damaged.is_corruption(), "{collation}: {damaged}");
        };
        for collation in [
            Bson::Null,
            bson::bson!("en"),
            bson::bson!({}),
            bson::bson!({ "locale": "elvish" }),
            bson::bson!({ "locale": "en", "version": "99" }),
            bson::bson!({ "locale": "en", "strength": 70 }),
        ] {
            changed(collation);
        }
    }

    #[test]
    fn an_entry_that_could_not_be_read_is_not_written() {
        let deep = (0..200).fold(doc! { "a": 1 }, |inner, _| doc! { "a": inner });
        let view =
            ViewDefinition { on: "others".to_owned(), pipeline: vec![deep], collation: Collation::simple() };
        let refused = encode_view(&namespace(), &view).expect_err("nested too deeply");
        assert!(refused.to_string().contains("cannot be stored"), "{refused}");
    }
}
