//! The description of a dump: `prelude.json` of a directory, and the field `cairndb` that it shares with the header
//! of an archive.

use bson::{Bson, Document, doc};

use crate::dump::known::{CARRIED, check_carried_by_dump, check_prelude};
use crate::dump::metadata::{document, documents, parse_document, text_of};
use crate::refusal::{Refusal, shown};

/// The version of the field `cairndb`.
const FORMAT: i64 = 1;

/// The file `prelude.json`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prelude {
    /// The version of the server. mongorestore accepts no dump without one.
    pub server_version: String,
    /// The tool that wrote the dump.
    pub tool_version: String,
    /// The part that mongorestore does not read.
    pub carried: Option<Carried>,
}

/// The additional part of a dump of CairnDB.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    /// The tool that wrote the dump.
    pub tool: String,
    /// Which state of the store it has.
    pub moment: Moment,
    /// The snapshots of each database's sequences, without those of fields.
    pub sequences: Vec<(String, Vec<Document>)>,
}

/// Which state of a store a dump has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Everything as it was at one moment.
    One,
    /// Each collection as it was at a moment of its own.
    Each,
}

impl Moment {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Each => "each",
        }
    }
}

impl Prelude {
    /// Reads the file.
    pub fn parse(text: &[u8]) -> Result<Self, Refusal> {
        let mut fields = parse_document(text)?;
        check_prelude(&fields)?;
        Ok(Self {
            server_version: text_of(&mut fields, "ServerVersion")?.unwrap_or_default(),
            tool_version: text_of(&mut fields, "ToolVersion")?.unwrap_or_default(),
            carried: document(&mut fields, CARRIED)?.map(Carried::parse).transpose()?,
        })
    }

    /// The document that the file has.
    pub fn to_document(&self) -> Document {
        let mut document =
            doc! { "ServerVersion": self.server_version.as_str(), "ToolVersion": self.tool_version.as_str() };
        if let Some(carried) = &self.carried {
            document.insert(CARRIED, carried.to_document());
        }
        document
    }
}

impl Carried {
    /// Reads the field `cairndb` of a prelude or an archive's header.
    ///
    /// # Errors
    /// Of a later version, of what is none, and of names that are not known.
    pub fn parse(mut fields: Document) -> Result<Self, Refusal> {
        if !fields.contains_key("format") {
            // Perhaps it has another name, which is to be reported.
            check_carried_by_dump(&fields)?;
        }
        let number = |format: &Bson| format.as_i32().map(i64::from).or_else(|| format.as_i64());
        let format = fields.get("format").and_then(number);
        if format != Some(FORMAT) {
            let format = fields.get("format").map_or_else(|| "none".to_owned(), ToString::to_string);
            let reason = format!("the field \"cairndb\" has the format {format}, and {FORMAT} is known");
            return Err(Refusal::wrong_type(reason));
        }
        check_carried_by_dump(&fields)?;
        Ok(Self {
            tool: text_of(&mut fields, "tool")?.unwrap_or_default(),
            moment: moment(text_of(&mut fields, "moment")?.as_deref())?,
            sequences: sequences(&mut fields)?,
        })
    }

    /// The field as a document.
    pub fn to_document(&self) -> Document {
        let sequences: Document = self
            .sequences
            .iter()
            .map(|(database, snapshots)| (database.clone(), Bson::from(snapshots.clone())))
            .collect();
        doc! {
            "format": i32::try_from(FORMAT).unwrap_or(i32::MAX),
            "tool": self.tool.as_str(),
            "moment": self.moment.name(),
            "sequences": sequences,
        }
    }
}

fn moment(name: Option<&str>) -> Result<Moment, Refusal> {
    match name {
        Some("one") => Ok(Moment::One),
        Some("each") | None => Ok(Moment::Each),
        Some(other) => {
            Err(Refusal::wrong_type(format!("moment is \"one\" or \"each\", not {}", shown(other))))
        }
    }
}

/// Removes the field `sequences` from the fields and returns it: the snapshots of sequences, by database.
pub fn sequences(fields: &mut Document) -> Result<Vec<(String, Vec<Document>)>, Refusal> {
    let mut by_database = document(fields, "sequences")?.unwrap_or_default();
    let databases: Vec<String> = by_database.keys().cloned().collect();
    databases
        .into_iter()
        .map(|database| documents(&mut by_database, &database).map(|snapshots| (database, snapshots)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let carried = Carried {
            tool: "cairn 1".into(),
            moment: Moment::One,
            sequences: vec![("shop".into(), vec![doc! { "Name": "tickets", "UsedUpTo": 7_i64 }])],
        };
        assert_eq!(Carried::parse(carried.to_document()).unwrap(), carried);
        let prelude =
            Prelude { server_version: "7.0.0".into(), tool_version: "x".into(), carried: Some(carried) };
        let text = prelude.to_document().to_string();
        assert_eq!(Prelude::parse(text.as_bytes()).unwrap().server_version, "7.0.0");
    }

    #[test]
    fn later_formats_are_refused_and_named() {
        for (format, shown) in [("2", "2"), ("\"1\"", "\"1\""), ("null", "null")] {
            let text = format!("{{\"cairndb\":{{\"format\":{format}}}}}");
            let refusal = Prelude::parse(text.as_bytes()).unwrap_err();
            let expected = format!("the field \"cairndb\" has the format {shown}, and 1 is known");
            assert_eq!(refusal.to_string(), expected);
        }
        assert!(Prelude::parse(br#"{"cairndb":{"format":1,"moment":"two"}}"#).is_err());
        assert!(Prelude::parse(br#"{"cairndb":{"format":1,"sequences":{"a":1}}}"#).is_err());
    }
}
