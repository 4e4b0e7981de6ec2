//! `cairn completions` and `cairn man`: the command line described for shells and for readers, from the
//! definitions that parse it.

use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::print;

/// Prints a script that completes commands in a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn completions bash > ~/.local/share/bash-completion/completions/cairn
  cairn completions fish > ~/.config/fish/completions/cairn.fish")]
pub(crate) struct Completions {
    /// The shell that the script is for.
    shell: Shell,
}

/// Prints a man page of the tool, or of one of its commands.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn man > cairn.1
  cairn man export > cairn-export.1")]
pub(crate) struct Man {
    /// The command, if the page is not for the whole tool.
    command: Option<String>,
}

pub(crate) fn completions(arguments: &Completions, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "cairn", &mut script);
    print(&script).map(drop)
}

pub(crate) fn man(arguments: &Man, command: clap::Command) -> Result<(), Failure> {
    let described = match &arguments.command {
        None => command,
        Some(name) => {
            let found = command.get_subcommands().find(|inner| inner.get_name() == name);
            let Some(found) = found else {
                return Err(Failure::usage(format!("there is no command {name:?}")));
            };
            // The page is named after tool and command, and its synopsis is what is typed.
            found.clone().display_name(format!("cairn-{name}")).bin_name(format!("cairn {name}"))
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(described).render(&mut page).map_err(|error| Failure::io("the page", &error))?;
    print(&page).map(drop)
}
