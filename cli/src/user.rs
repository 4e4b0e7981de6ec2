//! `cairn user`: who may log in to a server over a folder.

use std::io::{BufRead, IsTerminal, Read};
use std::path::PathBuf;

use cairndb::Client;
use cairndb_server::{Role, UserError, Users};

/// The largest password that is accepted.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// Manages the users who may log in to a server over a store.
///
/// Users are part of the folder, so no server may have it open at the same time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn user add shop-data ada
      asks for the password
  cairn user add shop-data report --read-only < password.txt
      takes the first line of a file, for a user who can change nothing
  cairn user list shop-data
  cairn user remove shop-data report")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a user. The tool asks for the password, or reads it from the first line of standard input.
    Add {
        /// The folder of the store. It is made if it does not exist.
        path: PathBuf,
        /// The user's name.
        name: String,
        /// The user may read everything and change nothing; otherwise the user may do everything.
        #[arg(long)]
        read_only: bool,
    },
    /// Print the users, one line each: name and role.
    List {
        /// The folder of the store.
        path: PathBuf,
    },
    /// Remove a user.
    Remove {
        /// The folder of the store.
        path: PathBuf,
        /// The user's name.
        name: String,
    },
}

/// Why a command about users failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the store cannot be opened")]
    Open(#[source] cairndb::Error),
    #[error(transparent)]
    User(#[from] UserError),
    #[error("the password cannot be read")]
    Password(#[source] std::io::Error),
    #[error("the two passwords differ")]
    Differ,
    #[error("the password is longer than {PASSWORD_BYTES_MAX} bytes")]
    Long,
    #[error("the store was not closed in order")]
    Close(#[source] cairndb::Error),
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    match arguments.action {
        Action::Add { path, name, read_only } => {
            let role = if read_only { Role::ReadAnyDatabase } else { Role::Root };
            // Before the store opens: a person may take minutes to type it, and a store is locked while it is
            // open.
            let password = password()?;
            let client = Client::open(path).map_err(Error::Open)?;
            let added = Users::of(&client).add(&name, &password, role);
            close(client, added.map_err(Error::from))
        }
        Action::List { path } => {
            let client = Client::builder().read_only(true).open(path).map_err(Error::Open)?;
            let listed = Users::of(&client).list().map(|users| print(&users));
            close(client, listed.map_err(Error::from))
        }
        Action::Remove { path, name } => {
            let client = Client::builder().create_if_missing(false).open(path).map_err(Error::Open)?;
            let removed = Users::of(&client).remove(&name);
            close(client, removed.map_err(Error::from))
        }
    }
}

/// Reads the password, from the terminal or from standard input.
fn password() -> Result<String, Error> {
    // Not from the command line, which every process of the machine can read.
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        let password = rpassword::prompt_password("Password: ").map_err(Error::Password)?;
        let again = rpassword::prompt_password("The same again: ").map_err(Error::Password)?;
        return if password == again { Ok(password) } else { Err(Error::Differ) };
    }
    let mut line = String::new();
    // Two more bytes than a password has: a line may end in a carriage return and a line feed.
    let read = stdin.lock().take(PASSWORD_BYTES_MAX + 2).read_line(&mut line).map_err(Error::Password)?;
    if read as u64 > PASSWORD_BYTES_MAX {
        return Err(Error::Long);
    }
    let password = line.strip_suffix('\n').unwrap_or(&line);
    Ok(password.strip_suffix('\r').unwrap_or(password).to_owned())
}

#[expect(clippy::print_stdout, reason = "the list is the command's result")]
fn print(users: &[cairndb_server::User]) {
    for user in users {
        println!("{} {}", user.name, user.role.name());
    }
}

fn close(client: Client, done: Result<(), Error>) -> Result<(), Error> {
    // The store is closed in any case, but the first error is the one that explains the failure.
    let closed = client.close().map_err(Error::Close);
    done.and(closed)
}
