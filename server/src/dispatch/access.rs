//! The rights that commands need. Strangers may run a few; readers may run what changes nothing; no client may touch
//! the collections in which the server keeps users and secrets.

use cairndb::bson::{RawArray, RawBsonRef, RawDocument};
use query::code::Code;

use crate::auth::users::{DATABASE, Role};
use crate::dispatch::call::Call;
use crate::failure::Failure;

/// The collections of `admin` that belong to the server. The engine rejects their names as well, wherever a
/// command contains one; this table provides MongoDB's error.
const RESERVED: [&str; 2] = ["system.keys", "system.users"];

/// The users that may run a command. The order matters: a later value includes the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    /// Every client, also before a login.
    Anyone,
    /// Every user. The command changes nothing that is stored.
    Reader,
    /// Users with the role `root`.
    Root,
}

/// Checks that the connection may run the command.
pub(super) fn authorize(call: &Call, access: Access) -> Result<(), Failure> {
    if call.shared.settings.requires_user && access != Access::Anyone {
        let name = call.command.name();
        let Some(user) = call.peer.user() else {
            return Err(unauthorized(format!("Command {name} requires authentication")));
        };
        let granted = match user.role {
            Role::Root => Access::Root,
            Role::ReadAnyDatabase => Access::Reader,
        };
        // A pipeline with `$out` or `$merge` makes a reading command one that writes.
        if access > granted || (granted == Access::Reader && writes_by_a_stage(call)?) {
            let database = call.command.database();
            let message = format!("not authorized on {database} to execute command '{name}'");
            return Err(unauthorized(message));
        }
    }
    check_reserved(call)
}

/// The name of the command that an `explain` contains. It runs with the rights of the client, so the client
/// needs them.
pub(super) fn explained(call: &Call) -> Result<Option<&str>, Failure> {
    Ok(explained_command(call)?.map(|(_, name)| name))
}

/// The command inside of a command, and its name.
fn explained_command(call: &Call) -> Result<Option<(&RawDocument, &str)>, Failure> {
    let Some(command) = call.fields().argument()?.and_then(RawBsonRef::as_document) else { return Ok(None) };
    Ok(command.iter().next().transpose()?.map(|(name, _)| (command, name.as_str())))
}

/// Whether a pipeline of the command, or of the explained one, has a stage that writes.
fn writes_by_a_stage(call: &Call) -> Result<bool, Failure> {
    let body = call.command.body();
    let explained = call.fields().argument()?.and_then(RawBsonRef::as_document);
    Ok(has_writing_stage(body)? || explained.map(has_writing_stage).transpose()? == Some(true))
}

fn has_writing_stage(command: &RawDocument) -> Result<bool, Failure> {
    // A document may contain a field twice, and the engine decides which one counts. So all are checked.
    for field in command {
        let (name, value) = field?;
        let pipeline = value.as_array().filter(|_| name.as_str() == "pipeline");
        if pipeline.map(is_writing).transpose()? == Some(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_writing(pipeline: &RawArray) -> Result<bool, Failure> {
    for stage in pipeline {
        // A value that is not a document is not a stage; the engine rejects it.
        let Some(stage) = stage?.as_document() else { continue };
        for field in stage {
            if matches!(field?.0.as_str(), "$out" | "$merge") {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The collections that a `bulkWrite` names, in its body and beside it. Of any other command there are none.
pub(super) fn named_by_bulk_write(call: &Call) -> Result<Vec<&str>, Failure> {
    const FIELD: &str = "nsInfo";
    let mut named = Vec::new();
    if call.command.name() != "bulkWrite" {
        return Ok(named);
    }
    for field in call.command.body() {
        let (name, value) = field?;
        let Some(entries) = value.as_array().filter(|_| name.as_str() == FIELD) else { continue };
        for entry in entries {
            // A value that is not a document is rejected by the engine.
            entry?.as_document().map_or(Ok(()), |entry| add_names(entry, &mut named))?;
        }
    }
    for sequence in call.command.sequences.iter().filter(|sequence| sequence.field == FIELD) {
        let mut rest: &[u8] = &sequence.documents;
        while !rest.is_empty() {
            let length = rest.first_chunk().map(|length| i32::from_le_bytes(*length));
            // The shortest document has five bytes.
            let length = length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length >= 5);
            let Some((entry, following)) = length.and_then(|length| rest.split_at_checked(length)) else {
                let message = "the documents beside a command do not end where their lengths say";
                return Err(Failure::new(Code::INVALID_BSON, message));
            };
            add_names(RawDocument::from_bytes(entry)?, &mut named)?;
            rest = following;
        }
    }
    Ok(named)
}

/// Adds the name of an entry of `nsInfo`, all of them if it has several: the engine decides which one counts.
fn add_names<'c>(entry: &'c RawDocument, named: &mut Vec<&'c str>) -> Result<(), Failure> {
    for field in entry {
        let (name, value) = field?;
        named.extend(value.as_str().filter(|_| name.as_str() == "ns"));
    }
    Ok(())
}

fn check_reserved(call: &Call) -> Result<(), Failure> {
    let (command, database) = (&call.command, call.command.database());
    if database != DATABASE {
        return Ok(());
    }
    // It would drop the users with the database.
    if command.name() == "dropDatabase" {
        let message = format!("Dropping the '{DATABASE}' database is prohibited.");
        return Err(Failure::new(Code::ILLEGAL_OPERATION, message));
    }
    let (body, mut named) = (command.body(), Vec::new());
    // The fields in which commands name a collection: `getMore` has it in `collection`, `renameCollection`
    // its target in `to`.
    for field in [command.name(), "collection", "to"] {
        named.push(body.get(field)?);
    }
    if let Some((explained, name)) = explained_command(call)? {
        named.push(explained.get(name)?);
    }
    // `renameCollection` names collections with their database.
    let is_reserved = |named: &&str| {
        RESERVED.iter().any(|reserved| reserved == named || format!("{DATABASE}.{reserved}") == **named)
    };
    let named = named.into_iter().flatten().filter_map(RawBsonRef::as_str);
    let mut named = named.chain(named_by_bulk_write(call)?);
    let Some(named) = named.find(is_reserved) else { return Ok(()) };
    let name = command.name();
    let message = format!("not authorized on {DATABASE} to execute command '{name}' on '{named}'");
    Err(unauthorized(message))
}

fn unauthorized(message: String) -> Failure {
    Failure::new(Code::UNAUTHORIZED, message)
}
