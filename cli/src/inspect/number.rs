//! The reason why a number is missing: one of six verdicts, a sentence and the facts.

use std::fmt::Write as _;
use std::time::Duration;

use cairndb::bson::{Bson, Document, doc};
use query::code::Code;

use crate::command::{count, raw};
use crate::extended_json::{Mode, write_value};
use crate::failure::{Exit, Failure};
use crate::figures::{DOCUMENTS, counted};
use crate::inspect::options::{Arguments, Asked, Looked, Verdict};
use crate::listing::{check_collection, check_database, if_known};
use crate::output::print;
use crate::plain::plain;
use crate::positions::Position;
use crate::signals::Signals;
use crate::store::{Store, open_for_reading};
use crate::talk::warn;

/// The number of documents that are named that have a number.
const NAMED_MAX: usize = 100;
/// The number of checks, and their interval, while an insert is running that may have the number.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// The findings.
struct Answer {
    verdict: Verdict,
    position: Position,
    /// The reply of `sequenceTrace`.
    trace: Document,
    documents: u64,
    /// The `_id`s of the first of them.
    ids: Vec<Bson>,
    /// The process that has the folder open for writing.
    holder: Option<u32>,
}

pub(super) fn look(
    arguments: &Arguments,
    asked: Asked<'_>,
    signals: &Signals,
    looked: &mut Looked,
) -> Result<(), Failure> {
    let store = open_for_reading(&arguments.store, &arguments.access, signals, &mut warn)?;
    match asked.collection {
        Some(collection) => check_collection(&*store, asked.database, collection)?,
        None => check_database(&*store, asked.database)?,
    }
    let answer = answer(&*store, asked, signals)?;
    // A signal has ended the search, and there may be documents that it has not come to.
    if signals.received().is_some() {
        return Ok(());
    }
    let sentence = answer.sentence(asked);
    looked.counts =
        vec![("documents", answer.documents), ("unlisted", count(&answer.trace, "unlisted").unwrap_or(0))];
    looked.names = vec![("verdict", answer.verdict.name()), ("sentence", sentence.clone())];
    looked.found = answer.found(asked);
    if !arguments.talk.json {
        print(answer.text(asked, &sentence).as_bytes())?;
    }
    match arguments.expect {
        Some(expected) if expected != answer.verdict => Err(Failure::new(
            Exit::Different,
            format!("the verdict is {}, and not {}", answer.verdict.name(), expected.name()),
        )),
        Some(_) | None => Ok(()),
    }
}

fn answer(store: &dyn Store, asked: Asked<'_>, signals: &Signals) -> Result<Answer, Failure> {
    let name = sequence_name(store, asked)?;
    let holder = store.folder()?.and_then(|folder| folder.holder);
    let mut attempt = 1;
    loop {
        // The value first: what was handed out by then is visible to the search, or is still being inserted.
        let trace = reply(store, asked, &doc! { "sequenceTrace": &name, "value": asked.value }, "trace")?;
        let (documents, ids) = documents(store, asked, signals)?;
        let is_settled = trace.get_bool("settled").unwrap_or(true);
        if documents == 0 && !is_settled && attempt < ATTEMPTS && signals.received().is_none() {
            attempt += 1;
            std::thread::sleep(PAUSE);
            continue;
        }
        let snapshot = reply(store, asked, &doc! { "sequenceSnapshot": &name }, "snapshot")?;
        let field = asked.collection.map(|collection| (collection.to_owned(), asked.name.to_owned()));
        let position = Position { database: asked.database.to_owned(), field, snapshot };
        let verdict = if documents > 0 { Verdict::Present } else { verdict(&trace, holder) };
        return Ok(Answer { verdict, position, trace, documents, ids, holder });
    }
}

/// The name of the sequence that is asked for.
fn sequence_name(store: &dyn Store, asked: Asked<'_>) -> Result<String, Failure> {
    let Asked { database, collection, name, .. } = asked;
    let Some(collection) = collection else { return Ok(name.to_owned()) };
    let listed = if_known(store.run(database, raw(&doc! { "listAutoIncrements": collection })?))?;
    let Some(reply) = listed else { return Err(no_sequences()) };
    let fields = reply.get_array("autoIncrements").map(Vec::as_slice).unwrap_or_default();
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .filter_map(Bson::as_document)
        .filter_map(|field| Some((field.get_str("Field").ok()?, field.get_str("SequenceName").ok()?)))
        .collect();
    if let Some((_, sequence)) = fields.iter().find(|(field, _)| *field == name) {
        return Ok((*sequence).to_owned());
    }
    let own: Vec<&str> = fields.iter().map(|(field, _)| *field).collect();
    let own =
        if own.is_empty() { "it has none".to_owned() } else { format!("these are: {}", own.join(", ")) };
    Err(Failure::new(
        Exit::Failed,
        format!("{database}.{collection} has no auto-increment field {name}; {own}"),
    ))
}

/// The document in the reply of a command that MongoDB does not have.
fn reply(store: &dyn Store, asked: Asked<'_>, command: &Document, field: &str) -> Result<Document, Failure> {
    let reply = store.run(asked.database, raw(command)?).map_err(|failure| match failure.code {
        Some(code) if code == Code::COMMAND_NOT_FOUND.number() => no_sequences(),
        _ => failure,
    })?;
    reply.get_document(field).cloned().map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}

fn no_sequences() -> Failure {
    Failure::new(
        Exit::Failed,
        "the server has no sequences: it is MongoDB's, or an older one of CairnDB; give inspect the folder of the store, or the \
         socket of cairn serve",
    )
}

/// The number of documents that have the value, and the `_id`s of the first of them.
fn documents(store: &dyn Store, asked: Asked<'_>, signals: &Signals) -> Result<(u64, Vec<Bson>), Failure> {
    let Some(collection) = asked.collection else { return Ok((0, Vec::new())) };
    let filter = doc! { asked.name: asked.value };
    let mut found = store.stream(
        asked.database,
        raw(&doc! { "find": collection, "filter": filter, "projection": { "_id": 1 } })?,
    )?;
    let (mut documents, mut ids) = (0, Vec::new());
    // Without an index on the field, all documents are read.
    while signals.received().is_none() && found.advance()? {
        documents += 1;
        if ids.len() < NAMED_MAX
            && let Some(id) = found.current().get("_id").ok().flatten()
            && let Ok(id) = Bson::try_from(id)
        {
            ids.push(id);
        }
    }
    Ok((documents, ids))
}

/// The verdict without a document.
fn verdict(trace: &Document, holder: Option<u32>) -> Verdict {
    // Values that a process that has the folder open has reserved look as if it had crashed.
    let is_any_noted = gaps(trace).iter().filter_map(Bson::as_document).any(is_noted);
    let is_only_reserved = holder.is_some() && !is_any_noted;
    match trace.get_str("verdict").unwrap_or_default() {
        "lost" if is_only_reserved => Verdict::NotYet,
        "lost" => Verdict::Lost,
        "not-yet" => Verdict::NotYet,
        "never" => Verdict::Never,
        "lost-unlisted" => Verdict::LostUnlisted,
        _ => Verdict::Used,
    }
}

/// Whether a gap is in the ledger.
fn is_noted(gap: &Document) -> bool {
    gap.get_datetime("at").is_ok()
}

fn gaps(trace: &Document) -> &[Bson] {
    trace.get_array("gaps").map(Vec::as_slice).unwrap_or_default()
}

impl Answer {
    fn sentence(&self, asked: Asked<'_>) -> String {
        let (value, owner) = (asked.value, self.position.owner());
        let number = |name: &str| self.position.number(name).unwrap_or_default();
        let round = self.round().map(|round| format!(" in round {round}")).unwrap_or_default();
        let mut sentence = match self.verdict {
            Verdict::Present if self.documents == 1 => format!("a document has {value}: {}", self.named()),
            Verdict::Present => {
                let documents = counted(self.documents, DOCUMENTS);
                format!("{documents} have {value}: {}", self.named())
            }
            Verdict::NotYet if self.reserved_by().is_some() => {
                format!(
                    "no document has {value}; the process that has the store open has reserved it, and may have handed it out"
                )
            }
            Verdict::NotYet => {
                let next = self
                    .position
                    .next()
                    .map(|next| format!(": its next value is {next}"))
                    .unwrap_or_default();
                format!("{owner} has not reached {value}{next}")
            }
            Verdict::Never => match self.trace.get_str("reason").unwrap_or_default() {
                "outside" => {
                    format!(
                        "{value} is not from {} to {}, where the values of {owner} are",
                        number("MinValue"),
                        number("MaxValue")
                    )
                }
                "beforeStart" => {
                    let start = number("StartValue");
                    format!(
                        "{owner} begins at {start}, unless it was once restarted before it, and does not reach {value}"
                    )
                }
                _ => {
                    format!("{value} is between two values of {owner}, whose step is {}", number("Increment"))
                }
            },
            Verdict::Lost => format!("{value} is lost{round}: {}", self.cause()),
            Verdict::LostUnlisted => {
                let unlisted = count(&self.trace, "unlisted").unwrap_or(0);
                format!(
                    "{value} was handed out or is lost{round}: the ledger keeps the newest thousand gaps, and the older ones had {unlisted} values"
                )
            }
            Verdict::Used if asked.collection.is_none() => format!("{value} was handed out{round}"),
            Verdict::Used => format!(
                "{value} was handed out{round}, and no document has it: that was deleted, its insert failed, or the value was requested by itself"
            ),
        };
        if self.verdict == Verdict::Used && !self.is_settled() {
            sentence.push_str("; an insert that may have it is still under way");
        }
        if self.verdict == Verdict::Never && number("Version") > 0 {
            sentence.push_str("; so it is declared now, and was declared otherwise before");
        }
        if let Some(holder) = self.holder.filter(|_| self.verdict != Verdict::Present) {
            let _ = write!(
                sentence,
                "; ask the process that has the store open, {holder}, by its socket to be sure"
            );
        }
        sentence
    }

    /// The process that has reserved the value and may have handed it out: it has the store open, and what it has in memory
    /// no other process sees.
    fn reserved_by(&self) -> Option<u32> {
        let is_reserved = self.trace.get_str("verdict").is_ok_and(|own| own == "lost");
        self.holder.filter(|_| self.verdict == Verdict::NotYet && is_reserved)
    }

    /// The gaps that have the value. What the process has reserved that has the folder open is not lost by a crash, although
    /// all but that process see it so.
    fn gaps(&self) -> Vec<Document> {
        let all = gaps(&self.trace).iter().filter_map(Bson::as_document).cloned();
        all.map(|mut gap| {
            if self.holder.is_some() && !is_noted(&gap) {
                gap.insert("cause", "reserved");
            }
            gap
        })
        .collect()
    }

    /// Whether no insert is under way that may have the value.
    fn is_settled(&self) -> bool {
        self.trace.get_bool("settled").unwrap_or(true)
    }

    /// The `_id`s, for people.
    fn named(&self) -> String {
        let mut out = b"_id ".to_vec();
        for (at, id) in self.ids.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            // An `_id` that could be stored can be written.
            if let Ok(id) = cairndb::bson::RawBson::try_from(id.clone()) {
                let _ = write_value(&mut out, id.as_raw_bson_ref(), Mode::Relaxed);
            }
        }
        if (self.ids.len() as u64) < self.documents {
            out.extend_from_slice(b", ..");
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The round in which a sequence that starts over passed the value; the first one is 1.
    fn round(&self) -> Option<i64> {
        let round = self.trace.get_i32("round").ok().filter(|_| self.position.flag("Cycled"))?;
        Some(i64::from(round) + 1)
    }

    /// The reason why it is lost.
    fn cause(&self) -> String {
        // The newest: a sequence that went around has earlier ones.
        let Some(gap) = gaps(&self.trace).last().and_then(Bson::as_document) else { return String::new() };
        let cause = match gap.get_str("cause").unwrap_or_default() {
            "crash" => "a process that had reserved it ended without closing the store",
            "alter" => "the attributes of the sequence were changed while it was reserved",
            "explicitValue" => "a document brought a value beyond it, or such a value was set",
            "restart" => "the sequence was restarted, or the collection emptied, while it was reserved",
            "conflict" => "the value before it was used already, and the rest of the block was given up",
            "acquirerClosed" => "it was reserved for an acquirer that was closed",
            "aborted" => "the transaction that had used it was aborted",
            other => other,
        };
        cause.to_owned()
    }

    fn text(&self, asked: Asked<'_>, sentence: &str) -> String {
        let mut out = String::new();
        let line = |out: &mut String, name: &str, value: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{name:<9} {value}");
        };
        line(&mut out, "verdict", &self.verdict.name());
        line(&mut out, "because", &plain(sentence));
        line(&mut out, "sequence", &plain(&self.position.owner()));
        line(&mut out, "contract", self.position.contract());
        line(&mut out, "value", &asked.value.to_string());
        if let Some(next) = self.position.next() {
            line(&mut out, "next", &next.to_string());
        }
        if let Some(holder) = self.reserved_by() {
            line(&mut out, "process", &format!("{holder}, which may have handed it out"));
        }
        for gap in self.gaps() {
            let number = |name: &str| gap.get_i64(name).unwrap_or_default();
            let cause = gap.get_str("cause").unwrap_or_default();
            let at = gap.get_datetime("at").ok().and_then(|at| at.try_to_rfc3339_string().ok());
            let at = at.map_or_else(|| "not written yet".to_owned(), |at| format!("noted {at}"));
            line(&mut out, "gap", &format!("{} to {}, {cause}, {at}", number("first"), number("last")));
        }
        out
    }

    fn found(&self, asked: Asked<'_>) -> Vec<(&'static str, Bson)> {
        let mut found = vec![("value", Bson::Int64(asked.value))];
        let mut identity = self.position.identity();
        found.extend(["database", "name", "collection", "field"].into_iter().filter_map(|name| {
            let value = identity.remove(name)?;
            Some((name, value))
        }));
        found.push(("ids", Bson::Array(self.ids.clone())));
        found.push(("gaps", Bson::Array(self.gaps().into_iter().map(Bson::Document).collect())));
        if let Some(round) = self.round() {
            found.push(("round", Bson::Int64(round)));
        }
        for name in ["reason", "settled"] {
            found.extend(
                self.trace.get(name).filter(|value| **value != Bson::Null).map(|value| (name, value.clone())),
            );
        }
        found.extend(self.position.next().map(|next| ("next", Bson::Int64(next))));
        found.extend(self.holder.map(|holder| ("openIn", Bson::Int64(holder.into()))));
        found.extend(self.reserved_by().map(|holder| ("mayBeHandedOutBy", Bson::Int64(holder.into()))));
        found.push(("snapshot", Bson::Document(self.position.snapshot.clone())));
        found
    }
}
