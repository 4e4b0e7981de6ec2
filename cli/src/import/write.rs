//! Batches as database commands: what each mode sends for a document, and what the reply says became of it.

use cairndb::bson::raw::CString;
use cairndb::bson::{Document, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, cstr, doc};
use clap::ValueEnum;
use query::code::Code;

use crate::command::{raw, with_array};
use crate::failure::{Exit, Failure};
use crate::store::Store;

/// The action for a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// Insert it.
    Insert,
    /// Replace the document that matches, or insert it.
    Upsert,
    /// Set its fields in the document that matches, or insert it.
    Merge,
    /// Delete the document that matches.
    Delete,
}

/// The state of a batch when its command returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Written,
    Durable,
}

/// The target of documents, and the way of writing them.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) database: String,
    pub(super) collection: String,
    pub(super) mode: Mode,
    /// The fields by which documents match.
    pub(super) match_fields: Vec<CString>,
    /// Whether a batch ends at its first rejection.
    pub(super) is_ordered: bool,
}

/// The result of a command.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) inserted: u64,
    pub(super) matched: u64,
    pub(super) modified: u64,
    pub(super) upserted: u64,
    pub(super) deleted: u64,
    /// In the order of the documents.
    pub(super) refused: Vec<Refused>,
}

/// A document that the store rejected.
#[derive(Debug)]
pub(super) struct Refused {
    /// Which of the batch.
    pub(super) index: usize,
    pub(super) code: i32,
    pub(super) message: String,
}

/// The fate of a line.
#[derive(Clone, Copy)]
pub(super) enum Fate<'a> {
    Done,
    /// An earlier process inserted it.
    There,
    Refused(&'a Refused),
}

impl<'a> Fate<'a> {
    pub(super) fn of(refused: Option<&&'a Refused>) -> Self {
        refused.map_or(Self::Done, |refused| Self::Refused(refused))
    }
}

impl Done {
    /// Adds what was done with documents that came `after` so many others.
    fn append(&mut self, other: Self, after: usize) {
        self.inserted += other.inserted;
        self.matched += other.matched;
        self.modified += other.modified;
        self.upserted += other.upserted;
        self.deleted += other.deleted;
        let moved =
            other.refused.into_iter().map(|refused| Refused { index: refused.index + after, ..refused });
        self.refused.extend(moved);
    }
}

impl Target {
    /// The statement for a document; `None` for an insert, where it is the document itself. Returns the reason if the
    /// document makes no statement.
    pub(super) fn statement(&self, document: &RawDocument) -> Result<Option<RawDocumentBuf>, String> {
        if self.mode == Mode::Insert {
            return Ok(None);
        }
        let mut statement = RawDocumentBuf::new();
        statement.append(cstr!("q"), self.filter(document)?);
        match self.mode {
            Mode::Insert => {}
            Mode::Delete => statement.append(cstr!("limit"), 1),
            Mode::Upsert => {
                // A name with a dollar in front would be an operator.
                if let Some(name) = first_name(document, |name| name.starts_with('$')) {
                    return Err(format!("a document with the field {name:?} cannot replace another"));
                }
                statement.append(cstr!("u"), document);
                statement.append(cstr!("upsert"), true);
            }
            Mode::Merge => {
                statement.append(cstr!("u"), self.changes(document)?);
                statement.append(cstr!("upsert"), true);
            }
        }
        Ok(Some(statement))
    }

    /// The filter for the document that matches: equality, whatever the values are.
    pub(super) fn filter(&self, document: &RawDocument) -> Result<RawDocumentBuf, String> {
        let mut filter = RawDocumentBuf::new();
        for path in &self.match_fields {
            let value = value_at(document, path.as_str());
            let value =
                value.ok_or_else(|| format!("the document has no {:?} to match by", path.as_str()))?;
            // It would find the documents that lack the field as well, and replace or delete the first of them.
            if matches!(value, RawBsonRef::Null | RawBsonRef::Undefined) {
                let path = path.as_str();
                return Err(format!("{path:?} is null, which would match documents that have no {path:?}"));
            }
            let mut equals = RawDocumentBuf::new();
            equals.append(cstr!("$eq"), value);
            filter.append(path, equals);
        }
        Ok(filter)
    }

    fn changes(&self, document: &RawDocument) -> Result<RawDocumentBuf, String> {
        if let Some(name) =
            first_name(document, |name| name.contains('.') || name.starts_with('$') || name.is_empty())
        {
            return Err(format!("the field {name:?} cannot be set: it would be a path or an operator"));
        }
        let mut fields = RawDocumentBuf::new();
        for (name, value) in document.iter().flatten() {
            if !self.match_fields.iter().any(|field| field.as_str() == name.as_str()) {
                fields.append(name, value);
            }
        }
        let mut changes = RawDocumentBuf::new();
        changes.append(cstr!("$set"), fields);
        Ok(changes)
    }

    /// Runs a command for `statements`. A document for which the store rejects the whole call is found, and rejected
    /// alone.
    pub(super) fn send(
        &self,
        store: &dyn Store,
        statements: &[&RawDocument],
        level: Level,
    ) -> Result<Done, Failure> {
        match self.send_all(store, statements, level) {
            Err(Failure { code: Some(code), message, .. }) if self.is_of_a_document(code) => {
                if statements.len() < 2 {
                    return Ok(Done {
                        refused: vec![Refused { index: 0, code, message }],
                        ..Done::default()
                    });
                }
                // Nothing was written: a call that is rejected as a whole is so before it begins.
                let (left, right) = statements.split_at(statements.len() / 2);
                let mut done = self.send(store, left, level)?;
                if done.refused.is_empty() || !self.is_ordered {
                    done.append(self.send(store, right, level)?, left.len());
                }
                Ok(done)
            }
            sent => sent,
        }
    }

    /// Whether an error of an insert is about one of its documents: an auto-increment field rejects the call for a
    /// value that it does not accept.
    fn is_of_a_document(&self, code: i32) -> bool {
        self.mode == Mode::Insert && [Code::BAD_VALUE, Code::TYPE_MISMATCH].map(Code::number).contains(&code)
    }

    fn send_all(
        &self,
        store: &dyn Store,
        statements: &[&RawDocument],
        level: Level,
    ) -> Result<Done, Failure> {
        let reply = store.run(&self.database, self.command(statements, level)?)?;
        if let Ok(concern) = reply.get_document("writeConcernError") {
            let message = concern.get_str("errmsg").unwrap_or_default();
            return Err(Failure::new(Exit::Failed, format!("a batch may not be durable: {message}")));
        }
        Ok(self.read(&reply))
    }

    fn command(&self, statements: &[&RawDocument], level: Level) -> Result<RawDocumentBuf, Failure> {
        let (name, field) = match self.mode {
            Mode::Insert => (cstr!("insert"), "documents"),
            Mode::Upsert | Mode::Merge => (cstr!("update"), "updates"),
            Mode::Delete => (cstr!("delete"), "deletes"),
        };
        let mut head = RawDocumentBuf::new();
        head.append(name, self.collection.as_str());
        head.append(cstr!("ordered"), self.is_ordered);
        if level == Level::Durable {
            let mut concern = RawDocumentBuf::new();
            concern.append(cstr!("w"), "majority");
            concern.append(cstr!("j"), true);
            head.append(cstr!("writeConcern"), concern);
        } else {
            let mut concern = RawDocumentBuf::new();
            concern.append(cstr!("w"), 1);
            head.append(cstr!("writeConcern"), concern);
        }
        with_array(head, field, statements)
    }

    fn read(&self, reply: &Document) -> Done {
        let count = |name: &str| {
            let number =
                reply.get_i32(name).map(i64::from).or_else(|_| reply.get_i64(name)).unwrap_or_default();
            u64::try_from(number).unwrap_or_default()
        };
        let mut done = Done::default();
        match self.mode {
            Mode::Insert => done.inserted = count("n"),
            Mode::Delete => done.deleted = count("n"),
            Mode::Upsert | Mode::Merge => {
                done.upserted = reply.get_array("upserted").map_or(0, |upserted| upserted.len() as u64);
                // The count has those that were inserted as well.
                done.matched = count("n").saturating_sub(done.upserted);
                done.modified = count("nModified");
            }
        }
        let errors = reply.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default();
        done.refused = errors.iter().filter_map(|error| refused(error.as_document()?)).collect();
        done.refused.sort_by_key(|refused| refused.index);
        done
    }
}

impl Refused {
    /// Whether another document has the `_id` or a unique key.
    pub(super) fn is_duplicate(&self) -> bool {
        self.code == Code::DUPLICATE_KEY.number()
    }
}

fn refused(error: &Document) -> Option<Refused> {
    Some(Refused {
        index: usize::try_from(error.get_i32("index").ok()?).ok()?,
        code: error.get_i32("code").unwrap_or(Code::UNKNOWN_ERROR.number()),
        message: error.get_str("errmsg").unwrap_or("rejected without a reason").to_owned(),
    })
}

fn first_name(document: &RawDocument, is_meant: impl Fn(&str) -> bool) -> Option<&str> {
    document.iter().flatten().map(|(name, _)| name.as_str()).find(|name| is_meant(name))
}

/// The value at a dotted path through documents. Arrays are not walked: a value would be matched by one of many.
pub(super) fn value_at<'a>(document: &'a RawDocument, path: &str) -> Option<RawBsonRef<'a>> {
    let mut names = path.split('.');
    let mut value = document.get(names.next()?).ok()??;
    for name in names {
        value = value.as_document()?.get(name).ok()??;
    }
    Some(value)
}

/// Removes all documents of a collection.
pub(super) fn truncate(store: &dyn Store, target: &Target) -> Result<(), Failure> {
    let collection = target.collection.as_str();
    match store.run(&target.database, raw(&doc! { "truncate": collection })?) {
        Ok(_) => Ok(()),
        Err(failure) if failure.code == Some(Code::NAMESPACE_NOT_FOUND.number()) => Ok(()),
        // MongoDB has no such command.
        Err(failure) if failure.code == Some(Code::COMMAND_NOT_FOUND.number()) => {
            let deletes = RawArrayBuf::from_iter([raw(&doc! { "q": {}, "limit": 0 })?]);
            let mut command = RawDocumentBuf::new();
            command.append(cstr!("delete"), collection);
            command.append(cstr!("deletes"), deletes);
            store.run(&target.database, command).map(drop)
        }
        Err(failure) => Err(failure),
    }
}
