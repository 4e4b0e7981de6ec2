//! Who may run which command. Strangers may run a few; readers may run what changes nothing; no client may
//! touch the collections in which the server keeps users and secrets.

use cairndb::bson::{RawArray, RawBsonRef, RawDocument};
use query::code::Code;

use crate::auth::users::{DATABASE, Role};
use crate::dispatch::call::Call;
use crate::failure::Failure;

/// The collections of `admin` that belong to the server. The engine refuses their names as well, wherever a
/// command contains one; this table provides MongoDB's error.
const RESERVED: [&str; 2] = ["system.keys", "system.users"];

/// Who may run a command. The order matters: a later value includes the earlier ones.
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
        // What is not a document is no stage; the engine refuses it.
        let Some(stage) = stage?.as_document() else { continue };
        for field in stage {
            if matches!(field?.0.as_str(), "$out" | "$merge") {
                return Ok(true);
            }
        }
    }
    Ok(false)
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
    let mut named = named.into_iter().flatten().filter_map(RawBsonRef::as_str);
    let Some(named) = named.find(is_reserved) else { return Ok(()) };
    let name = command.name();
    let message = format!("not authorized on {DATABASE} to execute command '{name}' on '{named}'");
    Err(unauthorized(message))
}

fn unauthorized(message: String) -> Failure {
    Failure::new(Code::UNAUTHORIZED, message)
}
