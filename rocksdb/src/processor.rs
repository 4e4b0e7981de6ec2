//! The processor's own instructions for checksums. RocksDB sums every byte of its log and of its tables, and does so
//! in software unless the compiler may use them; whether it may is decided when it is compiled.
//!
//! Only the files that hold the checksum are compiled so. Code that runs before `main` lies in all the others, and
//! there an older processor would end the program before the engine can say what it lacks.

use std::process::Stdio;

use crate::compiler::Tool;
use crate::recorder::Source;

/// The file beside the archive that names what a processor must have, one word a line in Rust's spelling. The
/// engine's build script reads it.
pub(crate) const FILE: &str = "processor.txt";

/// Files of RocksDB that compute checksums, by the ends of their paths.
const CHECKSUMS: [&str; 2] = ["/util/crc32c.cc", "/util/crc32c_arm64.cc"];

/// The macros of compilers for features of x86 processors, and Rust's names for them.
const X86: [[&str; 2]; 17] = [
    ["__SSE3__", "sse3"],
    ["__SSSE3__", "ssse3"],
    ["__SSE4_1__", "sse4.1"],
    ["__SSE4_2__", "sse4.2"],
    ["__POPCNT__", "popcnt"],
    ["__PCLMUL__", "pclmulqdq"],
    ["__AVX__", "avx"],
    ["__AVX2__", "avx2"],
    ["__BMI__", "bmi1"],
    ["__BMI2__", "bmi2"],
    ["__FMA__", "fma"],
    ["__LZCNT__", "lzcnt"],
    ["__AVX512F__", "avx512f"],
    ["__AVX512BW__", "avx512bw"],
    ["__AVX512CD__", "avx512cd"],
    ["__AVX512DQ__", "avx512dq"],
    ["__AVX512VL__", "avx512vl"],
];

/// The flags with which the checksum of `target` uses the processor. On ARM RocksDB asks the processor at run time.
pub(crate) fn flags(target: &str) -> &'static [&'static str] {
    if target.starts_with("x86_64") {
        &["-msse4.2", "-mpclmul"]
    } else if target.starts_with("aarch64") && target.contains("linux") {
        &["-march=armv8-a+crc+crypto"]
    } else {
        &[]
    }
}

pub(crate) fn is_checksum(source: &Source) -> bool {
    CHECKSUMS.iter().any(|end| source.path.ends_with(end))
}

/// The features that a processor must have to run the output of `compiler` with `arguments`, in Rust's words.
pub(crate) fn required(compiler: &Tool, arguments: &[String]) -> Result<Vec<&'static str>, String> {
    let mut command = compiler.command();
    let flags = arguments.iter().filter(|word| word.starts_with("-m"));
    let output = command
        .args(flags)
        .args(["-dM", "-E", "-x", "c++", "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run the C++ compiler: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "the C++ compiler does not know the flags for the processor's checksums: build with --portable\n{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let is_defined = |name: &str| {
        text.lines().any(|line| {
            line.strip_prefix("#define ").is_some_and(|rest| rest.split(' ').next() == Some(name))
        })
    };
    let mut words = Vec::new();
    for [name, word] in X86 {
        if is_defined(name) {
            words.push(word);
        }
    }
    Ok(words)
}
