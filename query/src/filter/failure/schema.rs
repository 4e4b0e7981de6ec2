//! The rules of a schema that a value breaks. The order of the rules is MongoDB's.
//!
//! A keyword that needs no other schema is parsed and applied by itself. The others are followed into their schemas, so
//! each part of a schema is looked at once.

use std::collections::HashMap;

use bson::{Bson, Document, RawArray, RawArrayBuf, RawBsonRef, RawDocument, doc};

use crate::error::Error;
use crate::filter::failure::considered::Considered;
use crate::filter::failure::report::{Report, append, named};
use crate::filter::schema::equality::first_repeated;
use crate::filter::schema::parse::parse;
use crate::pattern::Pattern;
use crate::value::elements;

/// The explanation of a keyword that is about values of one type.
struct Telling {
    keyword: &'static str,
    /// A keyword that belongs to it.
    modifier: Option<&'static str>,
    reason: &'static str,
    /// The field that counts the things in the value.
    counted: Option<&'static str>,
}

const LENGTH: &str = "specified string length was not satisfied";
const COMPARISON: &str = "comparison failed";
const ITEMS: &str = "array did not match specified length";
const PROPERTIES: &str = "specified number of properties was not satisfied";

const fn telling(keyword: &'static str, reason: &'static str) -> Telling {
    Telling { keyword, modifier: None, reason, counted: None }
}

const SCALAR: [Telling; 6] = [
    telling("pattern", "regular expression did not match"),
    telling("maxLength", LENGTH),
    telling("minLength", LENGTH),
    telling("multipleOf", "considered value is not a multiple of the specified value"),
    Telling { modifier: Some("exclusiveMaximum"), ..telling("maximum", COMPARISON) },
    Telling { modifier: Some("exclusiveMinimum"), ..telling("minimum", COMPARISON) },
];

const OF_ARRAY: [Telling; 2] = [
    Telling { counted: Some("numberOfItems"), ..telling("minItems", ITEMS) },
    Telling { counted: Some("numberOfItems"), ..telling("maxItems", ITEMS) },
];

const OF_OBJECT: [Telling; 2] = [
    Telling { counted: Some("numberOfProperties"), ..telling("minProperties", PROPERTIES) },
    Telling { counted: Some("numberOfProperties"), ..telling("maxProperties", PROPERTIES) },
];

/// A schema and what it is applied to.
struct Application<'a> {
    report: &'a Report<'a>,
    schema: &'a RawDocument,
    value: RawBsonRef<'a>,
}

/// A keyword whose schema is about the elements of an array from a position on.
#[derive(Clone, Copy)]
struct EachItem<'a> {
    keyword: &'static str,
    schema: &'a RawDocument,
    array: &'a RawArray,
    start: usize,
    reason: &'static str,
}

/// The rules of the outermost schema that a document breaks.
pub(super) fn of_document(
    report: &Report<'_>,
    schema: &RawDocument,
    document: &RawDocument,
) -> Result<Vec<Bson>, Error> {
    let application = Application { report, schema, value: RawBsonRef::Document(document) };
    // A document is an object. A schema of anything else is met by none, and then nothing else counts.
    if let Some(broken) = application.types("expression always evaluates to false")? {
        // Without the value, which would be the whole document.
        let mut broken = broken;
        broken.remove("consideredValue");
        broken.remove("consideredType");
        return Ok(vec![broken.into()]);
    }
    application.broken()
}

/// Adds the title and the description of a schema.
pub(super) fn annotate(report: &Report<'_>, details: &mut Document, schema: &RawDocument) {
    for name in ["title", "description"] {
        if let Some(text) = schema.get(name).ok().flatten() {
            report.repeat(details, name, text);
        }
    }
}

impl<'a> Application<'a> {
    /// The rules that the value breaks.
    fn broken(&self) -> Result<Vec<Bson>, Error> {
        let mut broken = Vec::new();
        // Each kind of rule lets values of other types pass, so they are asked whatever the value is.
        for telling in &SCALAR {
            broken.extend(self.leaf(telling)?);
        }
        if let Some(array) = self.value.as_array() {
            self.array(array, &mut broken)?;
        }
        if let Some(object) = self.value.as_document() {
            self.object(object, &mut broken)?;
        }
        self.logic(&mut broken)?;
        // The type comes last, as in MongoDB.
        broken.extend(self.types("type did not match")?.map(Bson::from));
        Ok(broken)
    }

    /// The explanation of another schema for another value.
    fn below(&self, schema: &RawDocument, value: RawBsonRef<'_>) -> Result<Vec<Bson>, Error> {
        // Whatever is returned then is not used: the report says that it is over, or has no room.
        if !self.report.goes_on() {
            return Ok(Vec::new());
        }
        Application { report: self.report, schema, value }.broken()
    }

    fn keyword(&self, keyword: &str) -> Option<RawBsonRef<'a>> {
        self.schema.get(keyword).ok().flatten()
    }

    fn schema_of(&self, keyword: &str) -> Option<&'a RawDocument> {
        self.keyword(keyword)?.as_document()
    }

    /// Whether the value is valid by a part of the schema.
    fn is_valid_by(&self, part: &RawDocument) -> Result<bool, Error> {
        // The whole schema was parsed before, so that its parts are well-formed and within the limits.
        let schema = parse(RawBsonRef::Document(part), 0, self.report.variables.room())?;
        Ok(schema.matches(self.value, &self.report.watch))
    }

    /// The details of a keyword that needs no other schema, if the value breaks it.
    fn leaf(&self, telling: &Telling) -> Result<Option<Bson>, Error> {
        let Telling { keyword, modifier, reason, counted } = telling;
        let Some(operand) = self.keyword(keyword) else { return Ok(None) };
        // Parsed and described together: `exclusiveMinimum` means nothing without `minimum`.
        let mut given = named(keyword, operand);
        if let Some((modifier, value)) = modifier.and_then(|name| Some((name, self.keyword(name)?))) {
            append(&mut given, modifier, value);
        }
        if self.is_valid_by(&given)? {
            return Ok(None);
        }
        let mut details = self.report.begin(keyword);
        self.report.specify(&mut details, &given);
        details.insert("reason", *reason);
        // The number of properties is reported without the object, as in MongoDB.
        if self.value.as_document().is_none() {
            self.report.consider(&mut details, Some(&Considered::only(self.value)));
        }
        if let Some(field) = counted {
            let count = match (self.value.as_array(), self.value.as_document()) {
                (Some(array), _) => elements(array).count(),
                (None, Some(object)) => object.iter_elements().count(),
                (None, None) => 0,
            };
            details.insert(*field, i32::try_from(count).unwrap_or(i32::MAX));
        }
        Ok(Some(details.into()))
    }

    fn types(&self, reason: &str) -> Result<Option<Document>, Error> {
        // A schema has one of them at most.
        for keyword in ["bsonType", "type"] {
            let Some(operand) = self.keyword(keyword) else { continue };
            let given = named(keyword, operand);
            if !self.is_valid_by(&given)? {
                let mut details = self.report.begin(keyword);
                self.report.specify(&mut details, &given);
                details.insert("reason", reason);
                let considered = Considered::only(self.value);
                self.report.consider(&mut details, Some(&considered));
                considered.tell_types(&mut details);
                return Ok(Some(details));
            }
        }
        Ok(None)
    }

    fn array(&self, array: &'a RawArray, broken: &mut Vec<Bson>) -> Result<(), Error> {
        for telling in &OF_ARRAY {
            broken.extend(self.leaf(telling)?);
        }
        if self.keyword("uniqueItems").and_then(RawBsonRef::as_bool) == Some(true)
            && let Some(repeated) = first_repeated(array)
        {
            let mut details = self.report.begin("uniqueItems");
            self.report.specify(&mut details, &named("uniqueItems", RawBsonRef::Boolean(true)));
            details.insert("reason", "found a duplicate item");
            self.report.consider(&mut details, Some(&Considered::only(self.value)));
            self.report.repeat(&mut details, "duplicatedValue", repeated);
            broken.push(details.into());
        }
        if let Some(schema) = self.schema_of("items") {
            let reason = "At least one item did not match the sub-schema";
            broken.extend(self.each_item(EachItem { keyword: "items", schema, array, start: 0, reason })?);
            return Ok(());
        }
        // An array of schemas: each is about the element at its own position.
        let Some(first) = self.keyword("items").and_then(RawBsonRef::as_array) else { return Ok(()) };
        // Elements beyond the schemas are for `additionalItems`, schemas beyond the elements for nothing.
        let schemas: Vec<&RawDocument> = elements(first).filter_map(RawBsonRef::as_document).collect();
        let mut failed: Vec<Bson> = Vec::new();
        for (position, (schema, element)) in schemas.iter().zip(elements(array)).enumerate() {
            let below = self.below(schema, element)?;
            if !below.is_empty() {
                failed.push(doc! { "itemIndex": number(position), "details": below }.into());
            }
        }
        if !failed.is_empty() {
            let mut details = self.report.begin("items");
            details.insert("details", failed);
            broken.push(details.into());
        }
        self.additional_items(array, schemas.len(), broken)
    }

    /// The explanation of `additionalItems` for the elements from a position on.
    fn additional_items(
        &self,
        array: &'a RawArray,
        start: usize,
        broken: &mut Vec<Bson>,
    ) -> Result<(), Error> {
        let keyword = "additionalItems";
        if let Some(schema) = self.schema_of(keyword) {
            let reason = "At least one additional item did not match the sub-schema";
            broken.extend(self.each_item(EachItem { keyword, schema, array, start, reason })?);
        } else if self.keyword(keyword).and_then(RawBsonRef::as_bool) == Some(false)
            && elements(array).nth(start).is_some()
        {
            let mut details = self.report.begin(keyword);
            self.report.specify(&mut details, &named(keyword, RawBsonRef::Boolean(false)));
            details.insert("reason", "found additional items");
            let mut rest = RawArrayBuf::new();
            elements(array).skip(start).for_each(|element| rest.push(element));
            self.report.repeat(&mut details, keyword, RawBsonRef::Array(&rest));
            broken.push(details.into());
        }
        Ok(())
    }

    /// The details of a schema that each element must meet. The first element that does not is reported.
    fn each_item(&self, each: EachItem<'_>) -> Result<Option<Bson>, Error> {
        let EachItem { keyword, schema, array, start, reason } = each;
        // The first one is enough: an array may have a million of them.
        for (position, element) in elements(array).enumerate().skip(start) {
            let below = self.below(schema, element)?;
            if !below.is_empty() {
                let mut details = self.report.begin(keyword);
                annotate(self.report, &mut details, schema);
                details.insert("reason", reason);
                details.insert("itemIndex", number(position));
                details.insert("details", below);
                return Ok(Some(details.into()));
            }
        }
        Ok(None)
    }

    fn object(&self, object: &'a RawDocument, broken: &mut Vec<Bson>) -> Result<(), Error> {
        // A name may be there twice, and a schema is about both values.
        let mut fields: HashMap<&str, Vec<RawBsonRef<'_>>> = HashMap::new();
        for field in object.iter_elements().map_while(Result::ok) {
            if let Ok(value) = field.value() {
                fields.entry(field.key().as_str()).or_default().push(value);
            }
        }
        if let Some(properties) = self.schema_of("properties") {
            let failed = self.properties(properties, &fields)?;
            if !failed.is_empty() {
                let mut details = self.report.begin("properties");
                details.insert("propertiesNotSatisfied", failed);
                broken.push(details.into());
            }
        }
        // In MongoDB's order: what is required comes after the properties that are there.
        self.other_properties(object, broken)?;
        if let Some(required) = self.keyword("required") {
            let missing = missing(required, &fields);
            if !missing.is_empty() {
                let mut details = self.report.begin("required");
                self.report.specify(&mut details, &named("required", required));
                details.insert("missingProperties", missing);
                broken.push(details.into());
            }
        }
        for telling in &OF_OBJECT {
            broken.extend(self.leaf(telling)?);
        }
        self.dependencies(&fields, broken)
    }

    /// The properties that break their own schemas.
    fn properties(
        &self,
        properties: &RawDocument,
        fields: &HashMap<&str, Vec<RawBsonRef<'_>>>,
    ) -> Result<Vec<Bson>, Error> {
        let mut failed: Vec<Bson> = Vec::new();
        for property in properties.iter_elements().map_while(Result::ok) {
            let name = property.key().as_str();
            let Some(schema) = property.value().ok().and_then(RawBsonRef::as_document) else { continue };
            // A property that is absent breaks no rule of its own: that is for `required`.
            for value in fields.get(name).into_iter().flatten() {
                let below = self.below(schema, *value)?;
                if !below.is_empty() {
                    let mut details = doc! { "propertyName": name };
                    annotate(self.report, &mut details, schema);
                    details.insert("details", below);
                    failed.push(details.into());
                }
            }
        }
        Ok(failed)
    }

    /// `additionalProperties` and `patternProperties`.
    fn other_properties(&self, object: &'a RawDocument, broken: &mut Vec<Bson>) -> Result<(), Error> {
        // Compiled once for the object, and not for each of its fields.
        let mut patterns = Vec::new();
        let given = self.schema_of("patternProperties");
        for pattern in given.into_iter().flat_map(RawDocument::iter_elements).map_while(Result::ok) {
            let Some(schema) = pattern.value().ok().and_then(RawBsonRef::as_document) else { continue };
            // It was parsed with the schema, so it is well-formed.
            if let Ok(parsed) = Pattern::parse(pattern.key().as_str(), "", self.report.variables.room()) {
                patterns.push((pattern.key().as_str(), parsed, schema));
            }
        }
        let is_met_by = |pattern: &Pattern, name: &str| {
            self.report.watch.goes_on() && pattern.matches(RawBsonRef::String(name), &self.report.watch)
        };
        let named: Vec<&str> = self.schema_of("properties").map(names).unwrap_or_default();
        let named: std::collections::HashSet<&str> = named.into_iter().collect();
        let fields = || {
            object.iter_elements().map_while(|field| {
                let field = field.ok()?;
                Some((field.key().as_str(), field.value().ok()?))
            })
        };
        let additional = fields().filter(|(name, _)| {
            !named.contains(name) && !patterns.iter().any(|(_, pattern, _)| is_met_by(pattern, name))
        });
        broken.extend(self.additional_properties(additional)?);
        let mut failed: Vec<Bson> = Vec::new();
        for (text, pattern, schema) in &patterns {
            // Of each pattern the first property that breaks its schema is reported.
            // A field that several patterns match must meet the schemas of all of them.
            for (name, value) in fields().filter(|(name, _)| is_met_by(pattern, name)) {
                let below = self.below(schema, value)?;
                if !below.is_empty() {
                    let mut details = doc! { "propertyName": name };
                    annotate(self.report, &mut details, schema);
                    details.insert("regexMatched", *text);
                    details.insert("details", below);
                    failed.push(details.into());
                    break;
                }
            }
        }
        if !failed.is_empty() {
            let mut details = self.report.begin("patternProperties");
            details.insert("details", failed);
            broken.push(details.into());
        }
        Ok(())
    }

    fn additional_properties<'f>(
        &self,
        additional: impl Iterator<Item = (&'f str, RawBsonRef<'f>)>,
    ) -> Result<Option<Bson>, Error> {
        let keyword = "additionalProperties";
        if let Some(schema) = self.schema_of(keyword) {
            // As for items, the first property that breaks the schema is reported.
            for (name, value) in additional {
                let below = self.below(schema, value)?;
                if !below.is_empty() {
                    let mut details = self.report.begin(keyword);
                    annotate(self.report, &mut details, schema);
                    let reason = "at least one additional property did not match the subschema";
                    details.insert("reason", reason);
                    details.insert("failingProperty", name);
                    details.insert("details", below);
                    return Ok(Some(details.into()));
                }
            }
        } else if self.keyword(keyword).and_then(RawBsonRef::as_bool) == Some(false) {
            // All of them by name, so that a caller can remove them at once.
            let mut names: Vec<Bson> = Vec::new();
            for (name, _) in additional {
                self.report.spend(name.len());
                names.push(name.into());
            }
            if !names.is_empty() {
                let mut details = self.report.begin(keyword);
                self.report.specify(&mut details, &named(keyword, RawBsonRef::Boolean(false)));
                details.insert(keyword, names);
                return Ok(Some(details.into()));
            }
        }
        Ok(None)
    }

    fn dependencies(
        &self,
        fields: &HashMap<&str, Vec<RawBsonRef<'_>>>,
        broken: &mut Vec<Bson>,
    ) -> Result<(), Error> {
        let mut failed: Vec<Bson> = Vec::new();
        let given = self.schema_of("dependencies");
        for dependency in given.into_iter().flat_map(RawDocument::iter_elements).map_while(Result::ok) {
            let name = dependency.key().as_str();
            // A demand that depends on an absent field is not checked.
            let Some(demand) = dependency.value().ok().filter(|_| fields.contains_key(name)) else {
                continue;
            };
            let mut details = doc! { "conditionalProperty": name };
            if let Some(schema) = demand.as_document() {
                let below = self.below(schema, self.value)?;
                if below.is_empty() {
                    continue;
                }
                details.insert("details", below);
            } else {
                let missing = missing(demand, fields);
                if missing.is_empty() {
                    continue;
                }
                details.insert("missingProperties", missing);
            }
            failed.push(details.into());
        }
        if !failed.is_empty() {
            let mut details = self.report.begin("dependencies");
            details.insert("failingDependencies", failed);
            broken.push(details.into());
        }
        Ok(())
    }

    fn logic(&self, broken: &mut Vec<Bson>) -> Result<(), Error> {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let Some(array) = self.keyword(keyword).and_then(RawBsonRef::as_array) else { continue };
            // Both are kept: `oneOf` fails by too few matches and by too many.
            let (mut failed, mut matching): (Vec<Bson>, Vec<Bson>) = (Vec::new(), Vec::new());
            let schemas = elements(array).filter_map(RawBsonRef::as_document);
            for (position, schema) in schemas.enumerate() {
                let below = self.below(schema, self.value)?;
                if below.is_empty() {
                    matching.push(i32::try_from(position).unwrap_or(i32::MAX).into());
                    continue;
                }
                let mut details = doc! { "index": number(position) };
                annotate(self.report, &mut details, schema);
                details.insert("details", below);
                failed.push(details.into());
            }
            let is_met = match keyword {
                "allOf" => failed.is_empty(),
                "anyOf" => !matching.is_empty(),
                _ => matching.len() == 1,
            };
            if is_met {
                continue;
            }
            // Of several matches there is nothing that failed, so their positions are reported.
            let mut details = self.report.begin(keyword);
            if keyword == "oneOf" && !matching.is_empty() {
                details.insert("reason", "more than one subschema matched");
                details.insert("matchingSchemaIndexes", matching);
            } else {
                details.insert("schemasNotSatisfied", failed);
            }
            broken.push(details.into());
        }
        if let Some(schema) = self.schema_of("not")
            && self.below(schema, self.value)?.is_empty()
        {
            let mut details = self.report.begin("not");
            details.insert("reason", "child expression matched");
            broken.push(details.into());
        }
        broken.extend(self.leaf(&telling("enum", "value was not found in enum"))?);
        Ok(())
    }
}

/// The names of a list that an object lacks, ascending.
fn missing(list: RawBsonRef<'_>, fields: &HashMap<&str, Vec<RawBsonRef<'_>>>) -> Vec<Bson> {
    let names = list.as_array().into_iter().flat_map(elements).filter_map(RawBsonRef::as_str);
    // Ascending, as in MongoDB, whatever the order of the list is.
    let mut missing: Vec<&str> = names.filter(|name| !fields.contains_key(name)).collect();
    missing.sort_unstable();
    missing.into_iter().map(Bson::from).collect()
}

fn names(document: &RawDocument) -> Vec<&str> {
    document.iter_elements().map_while(Result::ok).map(|field| field.key().as_str()).collect()
}

fn number(position: usize) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}
