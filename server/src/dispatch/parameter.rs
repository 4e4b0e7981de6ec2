//! `getParameter`: the server's settings as MongoDB names them.

use cairndb::bson::{Document, doc};
use query::code::Code;

use crate::auth::credentials::MECHANISM;
use crate::dispatch::call::Call;
use crate::failure::Failure;
use crate::limits::SESSION_TIMEOUT;
use crate::reply::Reply;

/// `getParameter`: parameters by name, or all of them.
pub(super) fn get(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    let all = parameters(call);
    let argument = fields.argument()?;
    // Both forms are MongoDB's: `{getParameter: "*"}` and `{getParameter: {allParameters: true}}`.
    let is_all = argument.is_some_and(|argument| {
        argument.as_str() == Some("*")
            || argument
                .as_document()
                .is_some_and(|options| options.get_bool("allParameters").unwrap_or(false))
    });
    if is_all {
        return Ok(all.into());
    }
    let mut found = Document::new();
    // Unknown names are left out, as in MongoDB, as long as one of the names is known.
    for field in call.command.body().iter().skip(1) {
        let (name, _) = field?;
        if let Some(value) = all.get(name.as_str()) {
            found.insert(name.as_str(), value.clone());
        }
    }
    if found.is_empty() {
        return Err(Failure::new(Code::INVALID_OPTIONS, "no option found to get"));
    }
    Ok(found.into())
}

fn parameters(call: &Call) -> Document {
    let timeout = i64::try_from(call.shared.settings.cursor_timeout.as_millis()).unwrap_or(i64::MAX);
    doc! {
        "authenticationMechanisms": [MECHANISM],
        "cursorTimeoutMillis": timeout,
        "enableTestCommands": call.shared.settings.has_test_commands,
        // Tools ask for this one before they use newer commands.
        "featureCompatibilityVersion": { "version": "8.0" },
        "localLogicalSessionTimeoutMinutes": i32::try_from(SESSION_TIMEOUT.as_secs() / 60).unwrap_or(i32::MAX),
        "requireApiVersion": false,
    }
}
