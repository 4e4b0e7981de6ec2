//! The C++ compiler and the archiver, found as `cc` (of the crate's build script) finds them: by the environment, the
//! target's own variable first.

use std::path::Path;
use std::process::Command;

use crate::project::Project;

/// A command with the arguments that belong to it, as in `CXX="ccache c++"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tool {
    words: Vec<String>,
}

impl Tool {
    pub(crate) fn compiler(project: &Project) -> Result<Self, String> {
        let tool = match from_environment(project, "CXX") {
            Some(tool) => tool,
            None if project.target == project.host => Self::new("c++"),
            None => {
                return Err(format!(
                    "the C++ compiler for {target} is not known: name it in CXX_{name}",
                    target = project.target,
                    name = project.target.replace('-', "_")
                ));
            }
        };
        tool.version().map(|_| tool)
    }

    pub(crate) fn archiver(project: &Project) -> Self {
        from_environment(project, "AR").unwrap_or_else(|| Self::new("ar"))
    }

    pub(crate) fn command(&self) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or("c++", String::as_str));
        command.args(words);
        command
    }

    /// The words of the command, one a line: how a child process is told of it.
    pub(crate) fn lines(&self) -> String {
        self.words.join("\n")
    }

    pub(crate) fn from_lines(lines: &str) -> Self {
        Self { words: lines.lines().map(str::to_owned).collect() }
    }

    /// The first line by which the compiler names itself. Fails with what to install if there is none.
    pub(crate) fn version(&self) -> Result<String, String> {
        let name = self.words.join(" ");
        let output = self.command().arg("--version").output().map_err(|error| {
            format!(
                "cannot run the C++ compiler '{name}' ({error}): install one (Debian: apt-get install g++; Fedora: \
                 dnf install gcc-c++; macOS: xcode-select --install) or name it in CXX"
            )
        })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().next().filter(|_| output.status.success());
        line.map(str::to_owned).ok_or_else(|| format!("'{name} --version' failed: is it a C++ compiler?"))
    }

    /// A value of the environment: a file's name as a whole, else words.
    fn new(value: &str) -> Self {
        let whole = Path::new(value).is_file();
        let words = if whole {
            vec![value.to_owned()]
        } else {
            value.split_whitespace().map(str::to_owned).collect()
        };
        Self { words }
    }
}

/// The names under which `cc` looks for `name`, the most special first.
pub(crate) fn variables(project: &Project, name: &str) -> [String; 4] {
    let side = if project.target == project.host { "HOST" } else { "TARGET" };
    let target = &project.target;
    [
        format!("{name}_{target}"),
        format!("{name}_{}", target.replace(['-', '.'], "_")),
        format!("{side}_{name}"),
        name.to_owned(),
    ]
}

fn from_environment(project: &Project, name: &str) -> Option<Tool> {
    let values = variables(project, name).into_iter().filter_map(|name| std::env::var(name).ok());
    values.filter(|value| !value.trim().is_empty()).map(|value| Tool::new(&value)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_words_unless_a_file_has_that_name() {
        assert_eq!(Tool::new("ccache c++").words, ["ccache", "c++"]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my compiler");
        std::fs::write(&path, "").unwrap();
        assert_eq!(Tool::new(path.to_str().unwrap()).words, [path.to_str().unwrap()]);
    }
}
