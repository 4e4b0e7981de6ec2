//! A PostgreSQL server of one's own: made in a folder, reached by a socket in it, stopped when dropped.
//!
//! PostgreSQL does not run as root, so as root it runs as the user `postgres`, which its package makes. It gets
//! SIGINT, by which it stops at once and in order, when this program dies, whatever from.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use workload::{Durability, Result};

const USER: &str = "postgres";
const PATIENCE: Duration = Duration::from_secs(60);

/// The place where PostgreSQL's programs are.
pub(crate) struct Programs {
    folder: PathBuf,
}

/// A running server.
pub(crate) struct Server<'a> {
    programs: &'a Programs,
    folder: PathBuf,
    process: Child,
}

impl Programs {
    /// Those in `PATH`, else the newest of Debian's packages, which keep them out of it.
    pub(crate) fn find() -> Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut versions: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
        versions.sort_by_key(|folder| major(folder));
        let complete = |folder: &PathBuf| {
            ["initdb", "postgres", "pgbench", "psql"].iter().all(|program| folder.join(program).is_file())
        };
        let folder = env::split_paths(&path).chain(versions.into_iter().rev()).find(complete);
        let folder = folder.ok_or(
            "PostgreSQL is not installed: install its server with pgbench (on Debian, as root: \
             apt-get install -y postgresql), then try again",
        )?;
        Ok(Self { folder })
    }

    /// Such as `PostgreSQL 15.18`.
    pub(crate) fn version(&self) -> Result<String> {
        let text = succeed(Command::new(self.folder.join("postgres")).arg("--version"))?;
        let number =
            text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
        Ok(format!("PostgreSQL {}", number.ok_or_else(|| format!("'{text}' names no version"))?))
    }

    /// A program that runs as the server's user, and ends with this one.
    fn as_server(&self, program: &str) -> Result<Command> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "INT"]);
        if is_root()? {
            command.args(["--reuid", USER, "--regid", USER, "--init-groups"]);
        }
        command.arg(self.folder.join(program)).current_dir("/").stdin(Stdio::null());
        Ok(command)
    }
}

impl<'a> Server<'a> {
    /// Makes a server in `folder` and waits until it answers.
    pub(crate) fn start(programs: &'a Programs, folder: &Path, durability: Durability) -> Result<Self> {
        let folder = make_folder(folder)?;
        let data = folder.join("data");
        succeed(
            programs
                .as_server("initdb")?
                .args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--username", USER, "--pgdata"])
                .arg(&data),
        )?;
        let commit = match durability {
            Durability::Synced => "synchronous_commit=on",
            Durability::Unsynced => "synchronous_commit=off",
            Durability::Delayed => return Err("PostgreSQL is measured at two levels".into()),
        };
        let process = programs
            .as_server("postgres")?
            .args(["-c", commit, "-c", "listen_addresses=", "-c", "logging_collector=off", "-k"])
            .arg(&folder)
            .arg("-D")
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log"))?)
            .spawn()?;
        let mut server = Self { programs, folder, process };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    /// Runs one statement; what it gives, columns set apart by `|`.
    pub(crate) fn query(&self, statement: &str) -> Result<String> {
        let mut psql = self.client("psql");
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1", "--command"]);
        Ok(succeed(psql.arg(statement))?.trim().to_owned())
    }

    /// Runs `script` in `connections` connections at once, `times` in each; scripts a second. Variables are sent
    /// to the server as parameters.
    pub(crate) fn bench(
        &self,
        script: &str,
        variables: &[(&str, &str)],
        connections: u64,
        times: u64,
    ) -> Result<f64> {
        let file = self.folder.join("script.sql");
        fs::write(&file, script)?;
        let mut pgbench = self.client("pgbench");
        pgbench.args(["--no-vacuum", "--protocol=prepared", "--file"]).arg(&file);
        for (name, value) in variables {
            pgbench.arg("--define").arg(format!("{name}={value}"));
        }
        let (connections, times) = (connections.to_string(), times.to_string());
        pgbench.args(["--client", &connections, "--jobs", &connections, "--transactions", &times]);
        scripts_a_second(&succeed(pgbench.arg(USER))?)
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.folder.join(program));
        command.arg("--host").arg(&self.folder).args(["--username", USER]).stdin(Stdio::null());
        command
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let start = Instant::now();
        while let Err(error) = self.query("select 1") {
            if self.process.try_wait()?.is_some() || start.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(format!("PostgreSQL does not answer: {error}: {}", log.trim()).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        // A server that is gone already cannot be signaled, and need not be.
        let _ = Command::new("kill").args(["-INT", &pid]).stderr(Stdio::null()).status();
        let _ = self.process.wait();
    }
}

/// A folder inside of `folder` that belongs to the server's user, who may pass through `folder` to it.
fn make_folder(folder: &Path) -> Result<PathBuf> {
    let own = folder.join("server");
    let mut install = Command::new("install");
    install.args(["-d", "-m", "700"]);
    if is_root()? {
        fs::set_permissions(folder, Permissions::from_mode(0o711))?;
        install.args(["-o", USER]);
    }
    succeed(install.arg(&own))?;
    Ok(own)
}

fn is_root() -> Result<bool> {
    Ok(succeed(Command::new("id").arg("-u"))?.trim() == "0")
}

/// The output of a program that must succeed; else its message.
fn succeed(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run '{program}': {error}"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("'{program}' failed: {}", message.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The version in a folder like `/usr/lib/postgresql/15/bin`.
fn major(folder: &Path) -> Option<u32> {
    folder.parent()?.file_name()?.to_str()?.parse().ok()
}

/// Reads pgbench's report, which must contain no failures.
fn scripts_a_second(report: &str) -> Result<f64> {
    let after = |start: &str| report.lines().find_map(|line| line.strip_prefix(start));
    if let Some(failed) = after("number of failed transactions: ").filter(|failed| !failed.starts_with("0 "))
    {
        return Err(format!("pgbench reports failed transactions: {failed}").into());
    }
    let rate = after("tps = ").and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    rate.ok_or_else(|| format!("pgbench reports no rate: {report}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_the_report() {
        let report =
            "number of failed transactions: 0 (0.000%)\ntps = 12.5 (without initial connection time)\n";
        assert!((scripts_a_second(report).unwrap() - 12.5).abs() < f64::EPSILON);
        let message = scripts_a_second("number of failed transactions: 2 (1%)\n").unwrap_err().to_string();
        assert_eq!(message, "pgbench reports failed transactions: 2 (1%)");
        assert!(scripts_a_second("").is_err());
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(major(Path::new("/usr/lib/postgresql/15/bin")), Some(15));
        assert_eq!(major(Path::new("/usr/bin")), None);
    }
}
