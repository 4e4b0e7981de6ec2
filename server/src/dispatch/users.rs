//! `usersInfo`, `updateUser` and `connectionStatus`: who may log in, another password, and who is logged in.

use cairndb::bson::{Bson, Document, RawBsonRef, doc};
use query::code::Code;

use crate::auth::credentials::MECHANISM;
use crate::auth::users::{DATABASE, Role, User, UserError};
use crate::dispatch::call::Call;
use crate::failure::{Failure, quoted};
use crate::fields::{Fields, whole};
use crate::limits::{NAMED_TEXTS_MAX, NAMED_USERS_MAX};
use crate::reply::Reply;

/// `usersInfo`. The argument is `1` for all users of the database, `{forAllDBs: true}`, a name, `{user, db}`,
/// or an array of the last two. Where users must log in, a reader sees only itself. Credentials are never
/// shown.
pub(super) fn list(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&[
        "showAuthenticationRestrictions",
        "showCredentials",
        "showCustomData",
        "showPrivileges",
    ])?;
    // Rejected and not ignored, or a tool would back up users without their credentials.
    if fields.boolean("showCredentials")? == Some(true) {
        let message = "the field 'showCredentials' of 'usersInfo' is not supported";
        return Err(Failure::new(Code::NOT_IMPLEMENTED, message));
    }
    let asked = fields.argument()?.ok_or_else(|| fields.missing("usersInfo"))?;
    let asked = match asked.as_array() {
        Some(several) => {
            let one = |value: Result<RawBsonRef<'_>, _>| asked_for(call, fields, value?);
            let several = fields.bounded("usersInfo", several, NAMED_USERS_MAX)?;
            several.into_iter().map(one).collect::<Result<Vec<_>, Failure>>()?
        }
        // All users belong to one database.
        None if asks_for_all(asked)? => vec![(None, DATABASE.to_owned())],
        None => vec![asked_for(call, fields, asked)?],
    };
    // Without a required login, a login does not restrict what a connection may see.
    let viewer = call.peer.user().filter(|_| call.shared.settings.requires_user);
    let is_visible = |user: &User| {
        viewer.as_ref().is_none_or(|viewer| viewer.role == Role::Root || viewer.name == user.name)
    };
    let users = call.shared.users.list().map_err(|error| {
        // The reason goes to the log alone: it may name a damaged document of another user.
        tracing::error!(%error, "users cannot be listed");
        Failure::internal("users cannot be listed")
    })?;
    let is_asked_for = |user: &User| {
        asked.iter().any(|(name, db)| db == DATABASE && name.as_ref().is_none_or(|name| *name == user.name))
    };
    let shown = users.iter().filter(|user| is_visible(user) && is_asked_for(user));
    Ok(doc! { "users": shown.map(|user| Bson::from(show(user))).collect::<Vec<_>>() }.into())
}

/// `updateUser`: another password, the only thing of a user that can be changed. `root` may change that of every user,
/// and others their own. Connections that the user has logged in stay logged in.
pub(super) fn update(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&[
        "authenticationRestrictions",
        "customData",
        "digestPassword",
        "mechanisms",
        "pwd",
        "roles",
    ])?;
    let given = fields.argument()?.ok_or_else(|| fields.missing("updateUser"))?;
    let name = given.as_str().ok_or_else(|| fields.wrong_type("updateUser", given, "string"))?;
    // Before anything is said of the user: a reader must not learn which others there are.
    let changer = call.peer.user().filter(|_| call.shared.settings.requires_user);
    if changer.is_some_and(|changer| changer.role != Role::Root && changer.name != name) {
        let message = format!("not authorized on {DATABASE} to execute command 'updateUser' of another user");
        return Err(Failure::new(Code::UNAUTHORIZED, message));
    }
    for field in ["authenticationRestrictions", "customData", "roles"] {
        if fields.value(field)?.is_some() {
            let message =
                format!("the field '{field}' of 'updateUser' is not supported: only 'pwd' can be changed");
            return Err(Failure::new(Code::NOT_IMPLEMENTED, message));
        }
    }
    if fields.boolean("digestPassword")? == Some(false) {
        let message = format!(
            "the field 'digestPassword' of 'updateUser' must be true: {MECHANISM} needs the password itself"
        );
        return Err(Failure::bad_value(message));
    }
    check_mechanisms(fields)?;
    let password = fields.text("pwd")?;
    let password = password
        .ok_or_else(|| Failure::bad_value("Must specify at least one field to update in updateUser"))?;
    let unknown = || {
        Failure::new(Code::USER_NOT_FOUND, format!("User {} is not found", quoted(&full_name(call, name))))
    };
    if call.command.database() != DATABASE {
        return Err(unknown());
    }
    match call.shared.users.set_password(name, password) {
        Ok(()) => {}
        Err(UserError::Unknown(_)) => return Err(unknown()),
        Err(UserError::Password(fault)) => return Err(Failure::bad_value(fault.to_string())),
        Err(UserError::Store(error)) => return Err(error.into()),
        Err(error) => {
            tracing::error!(%error, "a password cannot be changed");
            return Err(Failure::internal("the password cannot be changed"));
        }
    }
    tracing::info!(connection = call.peer.remote.connection, user = name, "changed a password");
    Ok(doc! {}.into())
}

/// Rejects mechanisms of a login that are not supported.
fn check_mechanisms(fields: Fields<'_>) -> Result<(), Failure> {
    let Some(mechanisms) = fields.array("mechanisms", NAMED_TEXTS_MAX)? else { return Ok(()) };
    let mut count = 0;
    for mechanism in mechanisms {
        let mechanism = mechanism?.as_str().unwrap_or_default();
        if mechanism != MECHANISM {
            let message =
                format!("the mechanism {} is not supported: only {MECHANISM} is", quoted(mechanism));
            return Err(Failure::bad_value(message));
        }
        count += 1;
    }
    if count == 0 {
        Err(Failure::bad_value("the field 'mechanisms' of 'updateUser' must not be empty"))
    } else {
        Ok(())
    }
}

fn full_name(call: &Call, name: &str) -> String {
    format!("{name}@{}", call.command.database())
}

/// `connectionStatus`: the user of the connection, and what the user may do.
pub(super) fn connection_status(call: &Call) -> Result<Reply, Failure> {
    let fields = call.fields();
    fields.allow(&["showPrivileges"])?;
    let user = call.peer.user();
    // Lists of one or no entry: a connection is logged in as one user at most.
    let each = |of: fn(&User) -> Bson| user.iter().map(of).collect::<Vec<Bson>>();
    let mut about = doc! {
        "authenticatedUsers": each(|user| doc! { "user": &user.name, "db": DATABASE }.into()),
        "authenticatedUserRoles": each(|user| role(user).into()),
    };
    if fields.boolean("showPrivileges")? == Some(true) {
        about.insert("authenticatedUserPrivileges", each(|user| privilege(user.role).into()));
    }
    Ok(doc! { "authInfo": about }.into())
}

/// Whether the argument is `{forAllDBs: true}`.
fn asks_for_all(asked: RawBsonRef<'_>) -> Result<bool, Failure> {
    let Some(asked) = asked.as_document().filter(|asked| matches!(asked.get("forAllDBs"), Ok(Some(_))))
    else {
        return Ok(false);
    };
    let asked = Fields::of("usersInfo", asked);
    asked.allow_all(&["forAllDBs"])?;
    if asked.boolean("forAllDBs")? == Some(true) {
        return Ok(true);
    }
    Err(Failure::bad_value("the field 'forAllDBs' of 'usersInfo' must be true"))
}

/// The name (`None` for all names) and the database of one argument.
fn asked_for(
    call: &Call,
    fields: Fields<'_>,
    value: RawBsonRef<'_>,
) -> Result<(Option<String>, String), Failure> {
    let database = call.command.database().to_owned();
    if let Some(name) = value.as_str() {
        return Ok((Some(name.to_owned()), database));
    }
    if let Some(user) = value.as_document() {
        let user = Fields::of("usersInfo", user);
        user.allow_all(&["db", "user"])?;
        let name = user.text("user")?.ok_or_else(|| user.missing("user"))?;
        let database = user.text("db")?.ok_or_else(|| user.missing("db"))?;
        return Ok((Some(name.to_owned()), database.to_owned()));
    }
    // Last, because an array may contain only the two forms above; MongoDB accepts `1` in any numeric type.
    if whole(value) == Some(1) {
        return Ok((None, database));
    }
    Err(fields.wrong_type("usersInfo", value, "1, string, object or array"))
}

fn show(user: &User) -> Document {
    doc! {
        "_id": format!("{DATABASE}.{}", user.name),
        "user": &user.name,
        "db": DATABASE,
        "roles": [role(user)],
        "mechanisms": [MECHANISM],
    }
}

fn role(user: &User) -> Document {
    doc! { "role": user.role.name(), "db": DATABASE }
}

fn privilege(role: Role) -> Document {
    match role {
        Role::Root => doc! { "resource": { "anyResource": true }, "actions": ["anyAction"] },
        Role::ReadAnyDatabase => doc! {
            "resource": { "db": "", "collection": "" },
            "actions": ["collStats", "dbStats", "find", "killCursors", "listCollections", "listIndexes"],
        },
    }
}
