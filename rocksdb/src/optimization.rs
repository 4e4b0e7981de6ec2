//! Flags that let the compiler make faster code of the crate's sources and commands, which mean what they meant. The crate
//! compiles for any use; here it is known that all of RocksDB is one archive, which is linked into one program.

use std::process::Stdio;

use crate::compiler::Tool;
use crate::recorder::Source;

/// The flags for the compiler, if it knows them.
///
/// - No other library replaces a function of RocksDB, so that one may be put into another, and called directly.
/// - RocksDB counts what each thread does, hundreds of times in a search. The variables of these counts get their first values,
///   all zero, in the files that define them, when a program asks for the counts. Other files would ask before each use whether
///   that was done.
const FLAGS: [&str; 2] = ["-fno-semantic-interposition", "-fno-extern-tls-init"];

/// The flags that the compiler knows.
pub(crate) fn flags(compiler: &Tool) -> Vec<&'static str> {
    FLAGS.into_iter().filter(|flag| knows(compiler, flag)).collect()
}

/// Adds the flags to the command of each source.
pub(crate) fn optimize(sources: &mut [Source], flags: &[&str]) {
    for source in sources {
        source.arguments.extend(flags.iter().map(|&flag| flag.to_owned()));
    }
}

fn knows(compiler: &Tool, flag: &str) -> bool {
    // Some compilers only warn of what they do not know.
    let mut command = compiler.command();
    command.args(["-Werror", flag, "-fsyntax-only", "-x", "c++", "/dev/null"]);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
