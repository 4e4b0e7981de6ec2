//! RocksDB's names of the files in a folder.

/// The name of a file that holds data of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileName {
    /// A write-ahead log, `000012.log`.
    Log(u64),
    /// A table, `000012.sst`.
    Table(u64),
    /// A MANIFEST, `MANIFEST-000012`.
    Manifest(u64),
}

/// RocksDB counts its files one by one, so no folder comes to this number. It adds to the highest one that it finds, and a sum that has
/// no room makes it write over its own files, or crash: it keeps two bits for other uses.
pub const NUMBERS_END: u64 = 1 << 56;

/// The file that names the MANIFEST in use.
pub const CURRENT: &str = "CURRENT";
/// The largest length of `CURRENT`: a name with a number of 20 digits, and a line feed.
pub const CURRENT_BYTES_MAX: usize = 32;

impl FileName {
    /// Parses a file name. Returns `None` for a file that holds no data of the database.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(digits) = name.strip_prefix("MANIFEST-") {
            return number(digits).map(Self::Manifest);
        }
        let (digits, extension) = name.split_once('.')?;
        match extension {
            "log" => number(digits).map(Self::Log),
            "sst" => number(digits).map(Self::Table),
            _ => None,
        }
    }

    /// The number in the name.
    pub fn number(self) -> u64 {
        match self {
            Self::Log(number) | Self::Table(number) | Self::Manifest(number) => number,
        }
    }

    /// The number of the MANIFEST that a `CURRENT` with this content names. Returns `None` if RocksDB does
    /// not write such content.
    pub fn parse_current(content: &[u8]) -> Option<u64> {
        // Only the exact form counts: RocksDB opens the file by the name as it is written here.
        let line = content.strip_suffix(b"\n")?;
        let name = std::str::from_utf8(line).ok()?;
        match Self::parse(name)? {
            Self::Manifest(number) if Self::Manifest(number).to_string() == name => Some(number),
            Self::Manifest(_) | Self::Log(_) | Self::Table(_) => None,
        }
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Log(number) => write!(f, "{number:06}.log"),
            Self::Table(number) => write!(f, "{number:06}.sst"),
            Self::Manifest(number) => write!(f, "MANIFEST-{number:06}"),
        }
    }
}

fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for file in [FileName::Log(7), FileName::Table(1_234_567), FileName::Manifest(u64::MAX)] {
            assert_eq!(FileName::parse(&file.to_string()), Some(file));
        }
    }

    #[test]
    fn other_names_are_none() {
        let others = ["", ".log", "12.ldb", "x.log", "12.log.torn", "MANIFEST-", "MANIFEST-+1", "CURRENT"];
        for name in others {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn current_is_one_exact_line() {
        assert_eq!(FileName::parse_current(b"MANIFEST-000005\n"), Some(5));
        for content in [
            b"".as_slice(),
            b"MANIFEST-000005",
            b"MANIFEST-5\n",
            b"MANIFEST-000005\n\n",
            b"000005.log\n",
            b"MANIFEST-\xff\n",
        ] {
            assert_eq!(FileName::parse_current(content), None, "{content:?}");
        }
    }
}
