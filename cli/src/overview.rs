//! The first page of help: the commands in groups, each with the first sentence of its own page.

use std::fmt::Write as _;

/// The tasks of readers, and the commands for them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Ask and change", &["query", "shell"]),
    ("Look", &["schema", "stats", "sequences", "inspect", "watch"]),
    ("Move data", &["import", "export", "dump", "restore", "migrate"]),
    ("Serve", &["serve", "user", "ops", "kill"]),
    ("Keep safe", &["backup", "restore-backup", "verify", "salvage", "compact"]),
    ("The tool itself", &["completions", "man", "version", HELP]),
];

/// The command that clap makes when it parses.
const HELP: &str = "help";
const ABOUT_HELP: &str = "Prints this page, or the help of a command";

/// The command line with the page in groups.
pub(crate) fn with_groups(command: clap::Command) -> clap::Command {
    let listed = listed(&command);
    // clap's own help, with these groups in place of its list of commands.
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}Options:\n{{options}}{{after-help}}"
    ))
}

/// The groups. A command that this build lacks is left out.
fn listed(command: &clap::Command) -> String {
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or_default();
    let mut listed = String::new();
    for (heading, names) in GROUPS {
        // Writing to a string does not fail.
        let _ = writeln!(listed, "{heading}:");
        for name in names {
            let about = about(command, name);
            if let Some(about) = about {
                let _ = writeln!(listed, "  {name:width$}  {about}");
            }
        }
        listed.push('\n');
    }
    listed
}

fn about(command: &clap::Command, name: &str) -> Option<String> {
    if name == HELP {
        return Some(ABOUT_HELP.to_owned());
    }
    command.find_subcommand(name)?.get_about().map(ToString::to_string)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The width that a terminal of 80 columns shows without breaking.
    const COLUMNS: usize = 80;

    /// Checks that each command is in one group, on one line.
    pub(crate) fn check(command: &clap::Command) {
        let named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        for inner in command.get_subcommands() {
            let count = named.iter().filter(|name| **name == inner.get_name()).count();
            assert_eq!(count, 1, "{} stands in {count} groups", inner.get_name());
        }
        let shown = listed(command);
        for line in shown.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line} is wider than a terminal");
        }
        #[cfg(feature = "shell")]
        assert_eq!(shown.lines().filter(|line| line.starts_with("  ")).count(), named.len());
    }
}
