//! The running commands: `currentOp`, and the stage `$currentOp`, which only a server can fill.
//!
//! Both are a list of documents that the engine filters like any other.

use cairndb::bson::spec::BinarySubtype;
use cairndb::bson::{Binary, Document, RawArray, RawArrayBuf, RawBsonRef, RawDocumentBuf, cstr, doc, rawdoc};
use query::code::Code;

use crate::dispatch::access::{Access, authorize};
use crate::dispatch::call::Call;
use crate::dispatch::engine;
use crate::failure::Failure;
use crate::fields::{Fields, whole};
use crate::limits::{SHOWN_SESSIONS_MAX, STAGES_MAX};
use crate::reply::Reply;
use crate::sessions::Session;
use crate::transaction::ShownTransaction;

const STAGE: &str = "$currentOp";
/// The limit for a look at the running commands, in milliseconds: a condition on them may be one that has no end, and
/// there are few places for those who look.
const TIME_MAX: i64 = 10_000;

/// `{currentOp: 1, ...}`. Fields that are not options are conditions on the running commands.
pub(super) fn current(call: &Call) -> Result<Reply, Failure> {
    on_admin(call)?;
    let fields = call.fields();
    let own = (fields.boolean("$ownOps")? == Some(true)).then_some(call.peer.remote.connection);
    fields.boolean("$all")?;
    let mut conditions = RawDocumentBuf::new();
    for field in call.command.body().iter().skip(1) {
        let (name, value) = field?;
        if !matches!(name.as_str(), "$all" | "$ownOps") && !Fields::is_everywhere(name.as_str()) {
            conditions.append(name, value);
        }
    }
    // As a command in bytes: the engine looks at the nesting and at the memory of a client's values before it decodes them.
    let mut pipeline = RawArrayBuf::new();
    let mut shown = running(call, own);
    shown.extend(idle_transactions(call, own));
    pipeline.push(listed(raw(&shown)?));
    pipeline.push(rawdoc! { "$match": conditions });
    let command = rawdoc! { "aggregate": 1, "pipeline": pipeline, "cursor": {}, "maxTimeMS": TIME_MAX };
    let cursor = call.client().database("admin").run_raw_cursor_command(command).run()?;
    let operations = cursor.collect::<cairndb::Result<Vec<Document>>>()?;
    Ok(doc! { "inprog": operations }.into())
}

/// A stage whose results are `documents`.
fn listed(documents: RawArrayBuf) -> RawDocumentBuf {
    // `$literal` keeps values that look like expressions, a namespace with a `$` for example, as they are.
    rawdoc! { "$documents": { "$literal": documents } }
}

fn raw(documents: &[Document]) -> Result<RawArrayBuf, Failure> {
    let mut raw = RawArrayBuf::new();
    for document in documents {
        raw.push(RawDocumentBuf::try_from(document)?);
    }
    Ok(raw)
}

/// The running commands; with `connection` only those of this connection. One that builds an index shows how far it is.
fn running(call: &Call, connection: Option<i32>) -> Vec<Document> {
    let mut running = call.shared.operations.list(connection);
    // Looked up afterwards, for the list of commands is locked while it is copied.
    let builds = call.client().index_builds();
    for build in &builds {
        let is_of_build = |operation: &&mut Document| {
            let builds =
                operation.get_document("command").is_ok_and(|command| command.contains_key("createIndexes"));
            builds
                && operation.get_str("ns").is_ok_and(|namespace| namespace == build.namespace)
                && !operation.contains_key("progress")
        };
        if let Some(operation) = running.iter_mut().find(is_of_build) {
            let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            operation.insert("msg", format!("Index Build: {} {}", build.phase, build.index_name));
            operation.insert("progress", doc! { "done": number(build.done), "total": number(build.total) });
        }
    }
    running
}

/// The transactions that run no command now; with `connection` only those that began on this connection.
fn idle_transactions(call: &Call, connection: Option<i32>) -> Vec<Document> {
    let idle = call.shared.sessions.idle_transactions(SHOWN_SESSIONS_MAX).into_iter();
    let asked = idle.filter(|(_, shown)| connection.is_none_or(|own| own == shown.remote.connection));
    let document = |(session, shown): (Session, ShownTransaction)| {
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: session.id.to_vec() };
        let mut document = doc! { "type": "idleSession", "desc": "inactive transaction", "active": false };
        shown.remote.show(&mut document);
        document.extend(doc! { "lsid": { "id": id }, "transaction": shown.shown() });
        document
    };
    asked.map(document).collect()
}

/// `killOp`: asks a running command to end, by its number in `currentOp`. The answer does not wait for its
/// end.
pub(super) fn kill(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["op"])?;
    on_admin(call)?;
    let op = fields.value("op")?.ok_or_else(|| fields.missing("op"))?;
    let id = whole(op).ok_or_else(|| fields.wrong_type("op", op, "long"))?;
    // As in MongoDB it is not an error if the command has ended meanwhile.
    call.shared.operations.kill(id);
    Ok(doc! { "info": "attempting to kill op" }.into())
}

/// An `aggregate` that begins with `$currentOp`, with the running commands in place of the stage. Returns
/// `None` for every other command.
pub(super) fn with_operations(call: &Call) -> Result<Option<RawDocumentBuf>, Failure> {
    if call.command.name() != "aggregate" {
        return Ok(None);
    }
    let Some((pipeline, options)) = first_stage(call, STAGE)? else { return Ok(None) };
    on_admin(call)?;
    // The stage reads no collection, so MongoDB accepts it only in `{aggregate: 1}`.
    if call.fields().argument()?.and_then(whole) != Some(1) {
        let message = format!("{STAGE} must be run against the 'admin' database with {{aggregate: 1}}");
        return Err(Failure::new(Code::INVALID_NAMESPACE, message));
    }
    let wrong =
        || Failure::new(Code::FAILED_TO_PARSE, format!("{STAGE} options must be specified in an object"));
    let options = Fields::of(STAGE, options.as_document().ok_or_else(wrong)?);
    for option in options.names()? {
        if !matches!(
            option,
            "allUsers" | "idleConnections" | "idleCursors" | "idleSessions" | "localOps" | "truncateOps"
        ) {
            return Err(Failure::new(
                Code::FAILED_TO_PARSE,
                format!("Unrecognized option '{option}' in {STAGE} stage."),
            ));
        }
        options.boolean(option)?;
    }
    // The stage shows the commands of all users.
    authorize(call, Access::Root)?;
    let mut shown = running(call, None);
    if options.boolean("idleSessions")? != Some(false) {
        shown.extend(idle_transactions(call, None));
    }
    let mut command = with_documents(call, pipeline, raw(&shown)?)?;
    if call.fields().value("maxTimeMS")?.is_none() {
        command.append(cstr!("maxTimeMS"), TIME_MAX);
    }
    Ok(Some(command))
}

/// Whether a command is an `aggregate` that begins with `$currentOp`, as shells ask for the running commands.
pub(super) fn is_look(call: &Call) -> bool {
    call.command.name() == "aggregate" && matches!(first_stage(call, STAGE), Ok(Some(_)))
}

/// The command with `documents` in place of the first stage of its pipeline.
pub(super) fn with_documents(
    call: &Call,
    pipeline: &RawArray,
    documents: RawArrayBuf,
) -> Result<RawDocumentBuf, Failure> {
    let mut stages = RawArrayBuf::new();
    stages.push(listed(documents));
    for stage in pipeline.into_iter().skip(1) {
        stages.push(stage?);
    }
    let (mut body, mut stages) = (RawDocumentBuf::new(), Some(stages));
    // The order of the fields is kept: the first one is the command.
    for field in &engine::body(call)? {
        let (name, value) = field?;
        // There is one, because no command has a field twice.
        if name == cstr!("pipeline")
            && let Some(stages) = stages.take()
        {
            body.append(name, stages);
        } else {
            body.append(name, value);
        }
    }
    Ok(body)
}

/// The pipeline, and the options of its first stage if it is the stage with this name.
pub(super) fn first_stage<'a>(
    call: &'a Call,
    stage: &str,
) -> Result<Option<(&'a RawArray, RawBsonRef<'a>)>, Failure> {
    let Some(pipeline) = call.fields().array("pipeline", STAGES_MAX)? else { return Ok(None) };
    let first = pipeline.into_iter().next().transpose()?.and_then(RawBsonRef::as_document);
    let options = first.map(|first| first.get(stage)).transpose()?.flatten();
    Ok(options.map(|options| (pipeline, options)))
}

fn on_admin(call: &Call) -> Result<(), Failure> {
    if call.command.database() == "admin" {
        return Ok(());
    }
    let message = format!("{} may only be run against the admin database.", call.command.name());
    Err(Failure::new(Code::UNAUTHORIZED, message))
}
