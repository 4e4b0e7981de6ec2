//! Who may run which command: before a login hardly any, readers what changes nothing, and nobody what touches the
//! collections in which the server keeps users and secrets.

use cairndb::bson::{RawArray, RawBsonRef, RawDocument};

use crate::auth::users::{DATABASE, Role};
use crate::dispatch::call::Call;
use crate::failure::Failure;

/// Collections of `admin` that are the server's own. The engine refuses their names too, wherever a command hides one;
/// this is for the answer.
const RESERVED: [&str; 2] = ["system.keys", "system.users"];

/// Who may run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    /// Also who has not yet proven who it is.
    Anyone,
    /// Every user: it changes nothing that is stored.
    Reader,
    /// Users who may do everything.
    Root,
}

/// Whether the connection may run the command.
pub(super) fn admit(call: &Call, access: Access) -> Result<(), Failure> {
    if call.shared.settings.requires_user && access != Access::Anyone {
        let name = call.command.name();
        let Some(user) = call.peer.user() else {
            return Err(unauthorized(format!("Command {name} requires authentication")));
        };
        let granted = match user.role {
            Role::Root => Access::Root,
            Role::ReadAnyDatabase => Access::Reader,
        };
        if access > granted || (granted == Access::Reader && writes_by_a_stage(call)?) {
            let database = call.command.database();
            let message = format!("not authorized on {database} to execute command '{name}'");
            return Err(unauthorized(message));
        }
    }
    leave_reserved_alone(call)
}

/// What a command explains runs in the name of whoever asks, so it needs what the explained one needs.
pub(super) fn explained(call: &Call) -> Result<Option<&str>, Failure> {
    Ok(explained_command(call)?.map(|(_, name)| name))
}

/// The command in a command, and its name.
fn explained_command(call: &Call) -> Result<Option<(&RawDocument, &str)>, Failure> {
    let Some(command) = call.fields().argument()?.and_then(RawBsonRef::as_document) else { return Ok(None) };
    Ok(command.iter().next().transpose()?.map(|(name, _)| (command, name.as_str())))
}

/// Whether a pipeline ends in a stage that writes.
fn writes_by_a_stage(call: &Call) -> Result<bool, Failure> {
    let body = call.command.body();
    let explained = call.fields().argument()?.and_then(RawBsonRef::as_document);
    Ok(has_writing_stage(body)? || explained.map(has_writing_stage).transpose()? == Some(true))
}

fn has_writing_stage(command: &RawDocument) -> Result<bool, Failure> {
    // A document may have a field twice, and which of them counts is the engine's to say.
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
        let Some(stage) = stage?.as_document() else { continue };
        for field in stage {
            if matches!(field?.0.as_str(), "$out" | "$merge") {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn leave_reserved_alone(call: &Call) -> Result<(), Failure> {
    let (command, database) = (&call.command, call.command.database());
    if database != DATABASE {
        return Ok(());
    }
    if command.name() == "dropDatabase" {
        let message = format!("Dropping the '{DATABASE}' database is prohibited.");
        return Err(Failure::new(20, "IllegalOperation", message));
    }
    let (body, mut named) = (command.body(), Vec::new());
    for field in [command.name(), "collection", "to"] {
        named.push(body.get(field)?);
    }
    if let Some((explained, name)) = explained_command(call)? {
        named.push(explained.get(name)?);
    }
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
    Failure::new(13, "Unauthorized", message)
}
