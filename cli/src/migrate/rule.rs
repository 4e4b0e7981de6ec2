//! The command line's rules for counters: the field or sequence that replaces each of them.

use cairndb::bson::oid::ObjectId;
use cairndb::bson::{Bson, Document, doc};

/// The object that is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Made {
    Field { database: String, collection: String, field: String },
    Sequence { database: String, name: String },
}

/// One field or sequence, and the document of a counter that says where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(super) made: Made,
    /// The database and the collection of the counter.
    pub(super) counters: (String, String),
    id: String,
}

impl Rule {
    /// Reads `DB.COLLECTION:FIELD=COUNTERS/_ID`.
    pub(super) fn parse_field(text: &str) -> Result<Self, String> {
        let (made, counter) = text.split_once('=').ok_or("it must be DB.COLLECTION:FIELD=COUNTERS/_ID")?;
        let (namespace, field) = made.rsplit_once(':').ok_or("it must name a field, DB.COLLECTION:FIELD")?;
        let (database, collection) = parts(namespace)?;
        if field.is_empty() {
            return Err("the name of the field is empty".to_owned());
        }
        let (counters, id) = counter_of(counter, &database)?;
        Ok(Self { made: Made::Field { database, collection, field: field.to_owned() }, counters, id })
    }

    /// Reads `DB.NAME=COUNTERS/_ID`.
    pub(super) fn parse_sequence(text: &str) -> Result<Self, String> {
        let (made, counter) = text.split_once('=').ok_or("it must be DB.NAME=COUNTERS/_ID")?;
        let (database, name) = parts(made)?;
        let (counters, id) = counter_of(counter, &database)?;
        Ok(Self { made: Made::Sequence { database, name }, counters, id })
    }

    /// The filter that finds the counter: its `_id` is the string, or the number or the `ObjectId` that it looks
    /// like.
    pub(super) fn filter(&self) -> Document {
        let mut ids = vec![Bson::String(self.id.clone())];
        ids.extend(self.id.parse().ok().map(Bson::Int64));
        ids.extend(ObjectId::parse_str(&self.id).ok().map(Bson::ObjectId));
        doc! { "_id": { "$in": ids } }
    }

    /// The counter, for people.
    pub(super) fn counter(&self) -> String {
        let ((database, collection), id) = (&self.counters, &self.id);
        format!("{database}.{collection}/{id}")
    }
}

impl Made {
    /// The name, for people.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Field { database, collection, field } => format!("{database}.{collection}, field {field}"),
            Self::Sequence { database, name } => format!("{database}, sequence {name}"),
        }
    }
}

fn parts(namespace: &str) -> Result<(String, String), String> {
    let parts = namespace.split_once('.').filter(|(database, name)| !database.is_empty() && !name.is_empty());
    let (database, name) = parts.ok_or_else(|| format!("{namespace} is not a DB.NAME"))?;
    Ok((database.to_owned(), name.to_owned()))
}

fn counter_of(text: &str, database: &str) -> Result<((String, String), String), String> {
    let named = text.split_once('/').filter(|(counters, id)| !counters.is_empty() && !id.is_empty());
    let (counters, id) = named.ok_or_else(|| format!("{text} is not a COUNTERS/_ID"))?;
    let counters =
        if counters.contains('.') { parts(counters)? } else { (database.to_owned(), counters.to_owned()) };
    Ok((counters, id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_sequences_are_named_with_their_counters() {
        let rule = Rule::parse_field("shop.a.b:n.m=counters/a/b").unwrap();
        let made = Made::Field { database: "shop".into(), collection: "a.b".into(), field: "n.m".into() };
        assert_eq!((rule.made.clone(), rule.counter()), (made, "shop.counters/a/b".into()));
        let rule = Rule::parse_sequence("shop.tickets=other.counters/7").unwrap();
        assert_eq!(rule.counter(), "other.counters/7");
        assert_eq!(rule.filter(), doc! { "_id": { "$in": ["7", 7_i64] } });
    }

    #[test]
    fn what_names_no_counter_is_refused() {
        for text in
            ["", "shop.orders", "shop.orders:n", "shop.orders=c/1", "orders:n=c/1", "s.o:n=c", "s.o:=c/1"]
        {
            assert!(Rule::parse_field(text).is_err(), "{text}");
        }
        assert!(Rule::parse_sequence("tickets=c/1").is_err() && Rule::parse_sequence("s.t=c/").is_err());
    }
}
