//! The project that is to link RocksDB, as `cargo metadata` tells it: which `librocksdb-sys`, with which features,
//! for which target.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::arguments::Arguments;

const CRATE: &str = "librocksdb-sys";

/// A project, and the crate that brings its RocksDB.
#[derive(Debug)]
pub(crate) struct Project {
    /// The folder of its workspace.
    pub(crate) root: PathBuf,
    pub(crate) target: String,
    /// The machine that builds.
    pub(crate) host: String,
    /// The folder of the crate's sources.
    pub(crate) crate_folder: PathBuf,
    pub(crate) version: String,
    pub(crate) features: BTreeSet<String>,
}

impl Project {
    pub(crate) fn find(arguments: &Arguments) -> Result<Self, String> {
        let host = host()?;
        let target = arguments.target.clone().unwrap_or_else(|| host.clone());
        if target.contains("windows") {
            return Err(format!("{target} is not offered: there the crate's own build is the way"));
        }
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1", "--filter-platform", &target]);
        command.args(&arguments.for_cargo);
        if let Some(manifest) = &arguments.manifest {
            command.arg("--manifest-path").arg(manifest);
        }
        let metadata: Value = serde_json::from_str(&output_of(&mut command, "cargo metadata")?)
            .map_err(|error| format!("'cargo metadata' printed what is not JSON: {error}"))?;
        let root = PathBuf::from(text(&metadata, "workspace_root")?);
        let package = crate_of(&metadata)?;
        let id = text(package, "id")?;
        let manifest = PathBuf::from(text(package, "manifest_path")?);
        Ok(Self {
            target,
            host,
            version: text(package, "version")?,
            features: features_of(&metadata, &id),
            crate_folder: manifest.parent().unwrap_or(&root).to_owned(),
            root,
        })
    }
}

/// Cargo: the one that runs this program, if one does.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The output of `command`. What it complains of goes to the user as it is.
pub(crate) fn output_of(command: &mut Command, name: &str) -> Result<String, String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run '{name}': {error}"))?;
    if !output.status.success() {
        return Err(format!("'{name}' failed: see its message above"));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("'{name}' printed what is not UTF-8"))
}

fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = output_of(Command::new(rustc).arg("-vV"), "rustc -vV")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "'rustc -vV' names no host".to_owned())
}

fn crate_of(metadata: &Value) -> Result<&Value, String> {
    let packages = metadata.get("packages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    packages.iter().find(|package| package.get("name").and_then(Value::as_str) == Some(CRATE)).ok_or_else(
        || format!("this project does not depend on {CRATE}: add cairndb to it first (cargo add cairndb)"),
    )
}

fn features_of(metadata: &Value, id: &str) -> BTreeSet<String> {
    let nodes = metadata.pointer("/resolve/nodes").and_then(Value::as_array);
    let node =
        nodes.and_then(|nodes| nodes.iter().find(|node| node.get("id").and_then(Value::as_str) == Some(id)));
    let features = node.and_then(|node| node.get("features")).and_then(Value::as_array);
    features.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn text(value: &Value, key: &str) -> Result<String, String> {
    let text = value.get(key).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| format!("'cargo metadata' does not name the {key}"))
}
