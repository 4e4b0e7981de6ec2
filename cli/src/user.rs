//! `cairn user`: who may log in to a server over a folder.

use std::path::{Path, PathBuf};

use cairndb::Client;
use cairndb::bson::doc;
use cairndb_server::{Role, UserError, Users};

use crate::command::raw;
use crate::failure::{Exit, Failure};
use crate::output::print_lines;
use crate::password;
use crate::signals::Signals;
use crate::store::folder::not_opened;
use crate::store::{Access, is_folder, open_server, refuse_absent_server};
use crate::talk::warn;

/// Manages the users who may log in to a server over a store.
///
/// Users are part of the folder, so no server may have it open at the same time. Passwords alone can be changed through a
/// server as well.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn user add shop-data ada
      asks for the password
  cairn user add shop-data report --read-only < password.txt
      takes the first line of a file, for a user who can change nothing
  cairn user add shop-data backup --password-file password.txt
      the same
  cairn user list shop-data
  cairn user password shop-data report --new-password-file password.txt
      another password, which is asked for without the option; in the place
      of the folder also a server that runs, mongodb://ada@localhost:27017/
  cairn user remove shop-data report")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a user. The password is the first line of `--password-file`, else that in `CAIRN_PASSWORD`, else asked for at the
    /// terminal, else the first line of standard input.
    Add {
        /// The folder of the store. It is made if it does not exist.
        path: PathBuf,
        /// The user's name.
        name: String,
        /// The user may read everything and change nothing; otherwise the user may do everything.
        #[arg(long)]
        read_only: bool,
        /// Read the password from the first line of this file.
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Print the users, one line each: name and role.
    List {
        /// The folder of the store.
        path: PathBuf,
    },
    /// Give a user another password, in a folder or through a running server. It is the first line of `--new-password-file`,
    /// else asked for at the terminal, else the first line of standard input.
    ///
    /// A server lets `root` change everyone's, and other users their own. Connections that the user has logged in stay logged in.
    Password {
        /// The store: a folder, a Unix socket, or a URI (`mongodb://` or `mongodb+srv://`).
        #[arg(value_name = "STORE")]
        store: PathBuf,
        /// The user's name.
        name: String,
        /// Read the new password from the first line of this file.
        #[arg(long, value_name = "FILE")]
        new_password_file: Option<PathBuf>,
        /// Read the password of the URI's user from the first line of this file; the environment variable `CAIRN_PASSWORD`
        /// holds it otherwise, or the terminal is asked.
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Remove a user.
    Remove {
        /// The folder of the store.
        path: PathBuf,
        /// The user's name.
        name: String,
    },
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Add { path, name, read_only, password_file } => {
            refuse_absent_server(&path)?;
            let role = if read_only { Role::ReadAnyDatabase } else { Role::Root };
            // Before the store opens: a person may need minutes to type it, and a store is locked while it is
            // open.
            let signals = Signals::watch()?;
            let password = signals.judge(password(password_file.as_deref(), &signals), "interrupted")?;
            if !path.exists() {
                // Tried without a folder: a name or a password that is rejected leaves none.
                let client = Client::in_memory()?;
                let added = Users::of(&client).add(&name, &password, role);
                close(client, added)?;
            }
            let client = Client::open(&path).map_err(|error| not_opened(&path, error))?;
            let added = Users::of(&client).add(&name, &password, role);
            close(client, added)
        }
        Action::List { path } => {
            let opened = Client::builder().read_only(true).open(&path);
            let client = opened.map_err(|error| not_opened(&path, error))?;
            let listed = Users::of(&client).list();
            let lines: Vec<String> = listed.iter().flatten().map(line).collect();
            close(client, listed.map(drop))?;
            print_lines(lines).map(drop)
        }
        Action::Password { store, name, new_password_file, password_file } => {
            let signals = Signals::watch()?;
            if is_folder(&store) && password_file.is_some() {
                return Err(Failure::usage(
                    "--password-file is for the login to a server, and a folder needs none: give --new-password-file",
                ));
            }
            if is_folder(&store) {
                refuse_absent_server(&store)?;
            }
            let password =
                signals.judge(new_password(new_password_file.as_deref(), &signals), "interrupted")?;
            if is_folder(&store) {
                let opened = Client::builder().create_if_missing(false).open(&store);
                let client = opened.map_err(|error| not_opened(&store, error))?;
                let changed = Users::of(&client).set_password(&name, &password);
                return close(client, changed);
            }
            let command = doc! { "updateUser": name, "pwd": password };
            let access = Access::of_server(password_file);
            let done = open_server("password", &store, &access, &signals, &mut warn)
                .and_then(|server| server.run("admin", raw(&command)?).map(drop));
            signals.judge(done, "interrupted")
        }
        Action::Remove { path, name } => {
            let opened = Client::builder().create_if_missing(false).open(&path);
            let client = opened.map_err(|error| not_opened(&path, error))?;
            let removed = Users::of(&client).remove(&name);
            close(client, removed)
        }
    }
}

/// The password of a new user.
fn password(file: Option<&Path>, signals: &Signals) -> Result<String, Failure> {
    if let Some(password) = password::given(file, signals)? {
        return Ok(password);
    }
    typed(signals)
}

/// Another password of a user who is there. The environment has the one for the login.
fn new_password(file: Option<&Path>, signals: &Signals) -> Result<String, Failure> {
    if file.is_some()
        && let Some(password) = password::given(file, signals)?
    {
        return Ok(password);
    }
    typed(signals)
}

/// The password that a person types twice, else the first line of standard input.
fn typed(signals: &Signals) -> Result<String, Failure> {
    let Some(password) = password::asked("New password: ", signals)? else {
        return password::standard(signals);
    };
    if password::asked("The same again: ", signals)?.as_ref() == Some(&password) {
        Ok(password)
    } else {
        Err(Failure::new(Exit::Failed, "the two passwords differ"))
    }
}

fn line(user: &cairndb_server::User) -> String {
    [&user.name, " ", user.role.name()].concat()
}

fn close(client: Client, done: Result<(), UserError>) -> Result<(), Failure> {
    // The store is closed in any case, but the first error is the one that explains the failure.
    let closed = client.close().map_err(Failure::from);
    let done = done.map_err(|error| {
        if let UserError::Store(error) = error {
            return error.into();
        }
        Failure::new(Exit::Failed, chain(&error))
    });
    done.and(closed)
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}
