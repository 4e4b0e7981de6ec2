//! Compiling many files as one. Most of the time goes into reading the same headers again for each file, so files of
//! one folder share a unit that includes them one after the other. Files that cannot live together (two functions of
//! one name, each private to its file) are compiled one by one, with the crate's own command.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::compiler::Tool;
use crate::recorder::Source;

/// Files of one unit at most. More need more memory, and leave processors idle at the end.
const UNIT_FILES_MAX: usize = 24;

/// Files that are compiled together, by one command.
#[derive(Debug)]
pub(crate) struct Unit {
    /// Says where its files are from, and is unique.
    pub(crate) name: String,
    pub(crate) sources: Vec<Source>,
    /// The sizes of its files together: how long it takes, roughly.
    bytes: u64,
}

/// The tools of a compilation.
pub(crate) struct Workshop<'a> {
    pub(crate) compiler: &'a Tool,
    /// The folder of units, objects and messages.
    pub(crate) folder: PathBuf,
}

/// Puts `sources` into units, the longest first, so that the last to end are short.
pub(crate) fn group(sources: Vec<Source>) -> Vec<Unit> {
    let mut folders: BTreeMap<(String, PathBuf, Vec<String>), Vec<Source>> = BTreeMap::new();
    for source in sources {
        // A command of its own, as the checksum has, makes a unit of its own.
        let key = (area(&source.path), source.folder.clone(), source.arguments.clone());
        folders.entry(key).or_default().push(source);
    }
    let mut units = Vec::new();
    for ((area, _, _), sources) in folders {
        for part in sources.chunks(UNIT_FILES_MAX) {
            let size =
                |source: &Source| fs::metadata(source.folder.join(&source.path)).map_or(0, |file| file.len());
            let bytes = part.iter().map(size).sum();
            units.push(Unit { name: format!("{area}-{}", units.len()), sources: part.to_vec(), bytes });
        }
    }
    units.sort_by_key(|unit| std::cmp::Reverse(unit.bytes));
    units
}

/// The folder of a source below `rocksdb`: `db` of `rocksdb/db/blob/blob_file.cc`.
fn area(path: &str) -> String {
    let mut folders = path.strip_prefix("rocksdb/").unwrap_or_default().split('/');
    folders.next().filter(|folder| !folder.contains('.') && !folder.is_empty()).unwrap_or("top").to_owned()
}

impl Workshop<'_> {
    /// Compiles all units on all processors, and returns the objects.
    pub(crate) fn compile(&self, units: &[Unit]) -> Result<Vec<PathBuf>, String> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Ok(Vec::new()));
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(units.len());
        let work = || {
            while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                let objects = self.compile_unit(unit);
                let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                match (&mut *done, objects) {
                    (Ok(all), Ok(objects)) => all.extend(objects),
                    (Err(_), _) => return,
                    (Ok(_), Err(message)) => {
                        *done = Err(message);
                        return;
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(work);
            }
        });
        let mut objects: Vec<PathBuf> =
            done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)?;
        objects.sort();
        Ok(objects)
    }

    fn compile_unit(&self, unit: &Unit) -> Result<Vec<PathBuf>, String> {
        let Some(first) = unit.sources.first().filter(|_| unit.sources.len() > 1) else {
            return self.compile_alone(unit);
        };
        let file = self.folder.join(&unit.name).with_extension("cc");
        let mut text = String::new();
        for source in &unit.sources {
            let path = source.folder.join(&source.path);
            let _ = writeln!(text, "#include \"{}\"", path.display());
        }
        fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        // RocksDB's log names source files, and counts on how long their paths are: they stay as the crate has them.
        let prefix = format!("-fmacro-prefix-map={}/=", first.folder.display());
        let object = file.with_extension("o");
        match self.run(first, &[prefix], &file, &object) {
            Ok(()) => Ok(vec![object]),
            Err(_) => self.compile_alone(unit),
        }
    }

    /// Compiles each file of `unit` as the crate does.
    fn compile_alone(&self, unit: &Unit) -> Result<Vec<PathBuf>, String> {
        let mut objects = Vec::new();
        for (position, source) in unit.sources.iter().enumerate() {
            let stem = Path::new(&source.path).file_stem().unwrap_or_default().to_string_lossy();
            let object = self.folder.join(format!("{}-{position}-{stem}.o", unit.name));
            self.run(source, &[], Path::new(&source.path), &object)
                .map_err(|message| format!("{} does not compile:\n{message}", source.path))?;
            objects.push(object);
        }
        Ok(objects)
    }

    /// Compiles `file` into `object` with the command of `source`. Returns the compiler's messages if it fails.
    fn run(&self, source: &Source, more: &[String], file: &Path, object: &Path) -> Result<(), String> {
        let mut command = self.compiler.command();
        command.current_dir(&source.folder).args(&source.arguments).args(more);
        let output = command
            .arg("-o")
            .arg(object)
            .arg("-c")
            .arg(file)
            .output()
            .map_err(|error| format!("cannot run the C++ compiler: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, flag: &str) -> Source {
        Source { path: path.to_owned(), folder: "/crate".into(), arguments: vec![flag.to_owned()] }
    }

    fn grouped(sources: Vec<Source>) -> Vec<usize> {
        let mut sizes: Vec<usize> = group(sources).iter().map(|unit| unit.sources.len()).collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn files_of_one_folder_share_units_of_limited_size() {
        let many =
            |count: usize| (0..count).map(|at| source(&format!("rocksdb/db/{at}.cc"), "-O3")).collect();
        assert_eq!(grouped(many(24)), [24]);
        assert_eq!(grouped(many(50)), [2, 24, 24]);
    }

    #[test]
    fn folders_and_commands_are_not_mixed() {
        let sources = vec![
            source("build_version.cc", "-O3"),
            source("rocksdb/db/a.cc", "-O3"),
            source("rocksdb/db/blob/b.cc", "-O3"),
            source("rocksdb/util/c.cc", "-O3"),
            source("rocksdb/util/crc32c.cc", "-msse4.2"),
        ];
        assert_eq!(grouped(sources), [1, 1, 1, 2]);
    }

    #[test]
    fn names_of_units_are_unique() {
        let sources = vec![source("rocksdb/a/x.cc", "-O3"), source("rocksdb/a/y.cc", "-O2")];
        let units = group(sources);
        assert_ne!(units[0].name, units[1].name);
    }
}
