//! The names here for options of MongoDB's tools. The tips that are made from similar names mislead: `--headerline`
//! is not `--no-header`, but its opposite.

use clap::error::{ContextKind, ContextValue, ErrorKind};

const URI: &str = "the URI, or the socket of a server, is the argument STORE";
const NAMESPACE: &str = "the collection is the argument DB.COLLECTION, after STORE";
const INCLUDE: &str = "some collections alone are chosen by --include 'DB.COLLECTION' or --include 'DB.*'";
const JOBS: &str = "--jobs says how many are at work at once";
const PASSWORD: &str = "a user is named by the URI, and --password-file has the password";

/// The options of several of MongoDB's tools, each with what is meant here. Those of one command come first.
const OF_ALL: [(&str, &str); 7] = [
    ("--uri", URI),
    ("--host", URI),
    ("--port", URI),
    ("--username", PASSWORD),
    ("-u", PASSWORD),
    ("--password", PASSWORD),
    ("-p", PASSWORD),
];

/// The options of mongoimport, mongoexport, mongodump and mongorestore.
const OF_COMMANDS: [(&str, &[(&str, &str)]); 4] = [
    (
        "import",
        &[
            (
                "--headerline",
                "the first line names the columns, without an option; --no-header says that it does not",
            ),
            ("--file", "files are named after DB.COLLECTION, without an option"),
            ("--db", NAMESPACE),
            ("-d", NAMESPACE),
            ("--collection", NAMESPACE),
            ("-c", NAMESPACE),
            ("--type", "--format says what the files are; most are recognized without it"),
            ("--jsonArray", "an array of documents is recognized without an option; --format json says it"),
            ("--legacy", "Extended JSON of both versions is read without an option"),
            ("--fieldFile", "--fields takes the names themselves, separated by commas"),
            ("-f", "--fields names the columns"),
            ("--columnsHaveTypes", "--types typed reads the types from the names of the columns"),
            ("--ignoreBlanks", "--ignore-blanks leaves empty cells out"),
            ("--useArrayIndexFields", "--arrays makes arrays"),
            (
                "--upsertFields",
                "--match names the fields by which a document matches, with --mode upsert, merge or delete",
            ),
            ("--upsert", "--mode upsert replaces the document that matches, or inserts"),
            ("--stopOnError", "--max-rejects 0 stops at the first record that is rejected"),
            (
                "--numInsertionWorkers",
                "there is nothing to set: records are parsed by several threads, and committed in their order",
            ),
            (
                "-j",
                "there is nothing to set: records are parsed by several threads, and committed in their order",
            ),
            (
                "--maintainInsertionOrder",
                "there is nothing to set: records are committed in the order of the file",
            ),
        ],
    ),
    (
        "export",
        &[
            (
                "--out",
                "the file is named after DB.COLLECTION, without an option; without it standard output is written",
            ),
            (
                "-o",
                "the file is named after DB.COLLECTION, without an option; without it standard output is written",
            ),
            ("--file", "the file is named after DB.COLLECTION, without an option"),
            ("--db", NAMESPACE),
            ("-d", NAMESPACE),
            ("--collection", NAMESPACE),
            ("-c", NAMESPACE),
            ("--query", "--filter chooses documents; @FILE reads it from a file"),
            ("--queryFile", "--filter @FILE reads the filter from a file"),
            ("--type", "--format says what is written; the name of the file says it without an option"),
            ("--jsonArray", "--format json writes one array"),
            ("--jsonFormat", "--canonical writes Extended JSON that keeps every type"),
            ("--fieldFile", "--fields takes the paths themselves, separated by commas"),
            ("-f", "--fields names what is written"),
        ],
    ),
    (
        "dump",
        &[
            ("--out", "the directory is named after STORE, without an option"),
            ("-o", "the directory is named after STORE, without an option"),
            ("--db", INCLUDE),
            ("-d", INCLUDE),
            ("--collection", INCLUDE),
            ("-c", INCLUDE),
            ("--query", "--filter chooses documents, if --include chooses one collection"),
            ("--excludeCollection", "--exclude 'DB.COLLECTION' leaves a collection out"),
            ("--excludeCollectionsWithPrefix", "--exclude 'DB.PREFIX*' leaves collections out"),
            ("--numParallelCollections", JOBS),
            ("--dumpDbUsersAndRoles", "--users dumps the users too"),
        ],
    ),
    (
        "restore",
        &[
            ("--dir", "the directory is named after STORE, without an option"),
            ("-d", "--db NAME takes the folder of one database, and --include 'DB.*' chooses one of several"),
            ("--collection", INCLUDE),
            ("-c", INCLUDE),
            ("--nsInclude", "--include 'DB.COLLECTION' chooses, with * for any string"),
            ("--nsExclude", "--exclude 'DB.COLLECTION' leaves out, with * for any string"),
            ("--nsFrom", "--rename 'FROM=TO' gives other names"),
            ("--nsTo", "--rename 'FROM=TO' gives other names"),
            ("--numInsertionWorkersPerCollection", JOBS),
            ("--numInsertionWorkers", JOBS),
            ("--numParallelCollections", JOBS),
            ("--noIndexRestore", "--no-indexes makes no indexes"),
            ("--restoreDbUsersAndRoles", "--users restores the users too"),
            ("--dryRun", "--dry-run writes nothing"),
            ("--gzip", "there is nothing to set: gzip is recognized"),
            ("--objcheck", "there is nothing to set: documents are always checked"),
        ],
    ),
];

/// Says what an unknown option is called here, if it is one of MongoDB's tools, in place of names that are similar.
pub(crate) fn correct(refused: &mut clap::Error, command: Option<&str>) {
    if refused.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let Some(ContextValue::String(option)) = refused.get(ContextKind::InvalidArg) else { return };
    let Some(tip) = command.and_then(|command| tip(command, option)) else { return };
    refused.remove(ContextKind::SuggestedArg);
    refused.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.to_owned().into()]));
}

fn tip(command: &str, option: &str) -> Option<&'static str> {
    let (_, own) = OF_COMMANDS.iter().find(|(name, _)| *name == command)?;
    own.iter().chain(&OF_ALL).find(|(name, _)| *name == option).map(|(_, tip)| *tip)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::Arguments;

    fn told(words: &[&str]) -> String {
        let words = ["cairn"].iter().chain(words);
        let mut refused = Arguments::try_parse_from(words.clone()).unwrap_err();
        correct(&mut refused, words.copied().nth(1));
        refused.to_string()
    }

    #[test]
    fn options_of_mongodb_s_tools_are_named_as_they_are_here() {
        for (words, tip) in [
            (&["import", "s", "a.b", "--headerline"][..], "tip: the first line names the columns"),
            (&["import", "s", "--type=csv"], "tip: --format says"),
            (&["import", "s", "a.b", "--jsonArray"], "tip: an array of documents is recognized"),
            (&["import", "--uri", "mongodb://a/"], "tip: the URI"),
            (&["export", "s", "a.b", "--out", "f"], "tip: the file is named after DB.COLLECTION"),
            (&["dump", "s", "-d", "shop"], "tip: some collections alone"),
            (&["restore", "s", "d", "--nsInclude", "a.*"], "tip: --include"),
        ] {
            let told = told(words);
            assert!(told.contains(tip) && told.contains("unexpected argument"), "{told}");
            assert!(!told.contains("similar"), "{told}");
        }
        // Others are reported as before.
        assert!(told(&["import", "s", "a.b", "--ignore-blank"]).contains("--ignore-blanks"));
        assert!(told(&["verify", "s", "--checksum"]).contains("--checksums"));
    }

    /// A tip for an option that is there is never shown, and one that names an option must name one that is there.
    #[test]
    fn tips_are_for_options_that_are_not_there_and_name_those_that_are() {
        let root = Arguments::command();
        for (name, own) in OF_COMMANDS {
            let command = root.find_subcommand(name).unwrap();
            let has = |option: &str| {
                let long = option.strip_prefix("--");
                let short = option.strip_prefix('-').and_then(|short| short.chars().next());
                command.get_arguments().any(|argument| match long {
                    Some(long) => argument.get_long() == Some(long),
                    None => argument.get_short() == short,
                })
            };
            for (option, tip) in own.iter().chain(&OF_ALL) {
                assert!(!has(option), "{name} has {option}");
                for word in tip.split([' ', ';', ',']).filter(|word| word.starts_with("--")) {
                    assert!(has(word), "{name}, {option}: there is no {word}");
                }
            }
        }
    }
}
