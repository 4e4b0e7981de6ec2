//! MongoDB's error codes: numbers and names.
//!
//! Other files say `Code::DUPLICATE_KEY`: a test of the house rejects the number there.

mod table;

use std::borrow::Cow;
use std::fmt;

use crate::code::table::table;

/// An error code of MongoDB: a number and its name.
///
/// ```
/// use cairndb_query::code::Code;
///
/// assert_eq!(Code::DUPLICATE_KEY.number(), 11000);
/// assert_eq!(Code::DUPLICATE_KEY.name(), "DuplicateKey");
/// // Codes that MongoDB has not named are called by their number.
/// assert_eq!(Code::PATTERN_INVALID.name(), "Location51091");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(i32);

/// The most bytes of a message in a reply, without the dots that mark a cut.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Cuts a message to about 16 KiB, because a message may contain a value of any size, and clients limit the size of a reply.
///
/// ```
/// use cairndb_query::code::cut_message;
///
/// assert_eq!(cut_message("no such command: 'pong'".to_owned()), "no such command: 'pong'");
/// assert_eq!(cut_message("x".repeat(1 << 20)).len(), (16 << 10) + 3);
/// ```
pub fn cut_message(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        // `truncate` panics within a character.
        let end = (0..=MESSAGE_BYTES_MAX).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or_default());
        message.push_str("...");
    }
    message
}

/// A line of the table.
struct Row {
    number: i32,
    /// `None` for a code that MongoDB calls by its number.
    name: Option<&'static str>,
}

impl Code {
    const RETRYABLE: [Self; 12] = [
        Self::HOST_UNREACHABLE,
        Self::HOST_NOT_FOUND,
        Self::NETWORK_TIMEOUT,
        Self::SHUTDOWN_IN_PROGRESS,
        Self::PRIMARY_STEPPED_DOWN,
        Self::EXCEEDED_TIME_LIMIT,
        Self::SOCKET_EXCEPTION,
        Self::NOT_WRITABLE_PRIMARY,
        Self::INTERRUPTED_AT_SHUTDOWN,
        Self::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
        Self::NOT_PRIMARY_NO_SECONDARY_OK,
        Self::NOT_PRIMARY_OR_SECONDARY,
    ];

    /// The code of a number that a client sent, whether the table has it or not.
    pub const fn of(number: i32) -> Self {
        Self(number)
    }

    /// The number, as replies have it in `code`.
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Whether the failure is one of a network or of a server that changes its part, so that MongoDB's drivers send a read or a
    /// retryable write again.
    ///
    /// ```
    /// use cairndb_query::code::Code;
    ///
    /// assert!(Code::SHUTDOWN_IN_PROGRESS.is_retryable() && !Code::DUPLICATE_KEY.is_retryable());
    /// ```
    pub fn is_retryable(self) -> bool {
        Self::RETRYABLE.contains(&self)
    }

    /// The name, as replies have it in `codeName`: MongoDB's, or `Location` and the number.
    pub fn name(self) -> Cow<'static, str> {
        let row = TABLE.binary_search_by_key(&self.0, |row| row.number).ok().and_then(|at| TABLE.get(at));
        let name = row.and_then(|row| row.name);
        name.map_or_else(|| Cow::Owned(format!("Location{}", self.0)), Cow::Borrowed)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.name())
    }
}

impl PartialEq<i32> for Code {
    fn eq(&self, number: &i32) -> bool {
        self.0 == *number
    }
}

/// Makes a constant and a row of each line.
macro_rules! codes {
    ($($constant:ident = $number:literal $(, $name:literal)?;)+) => {
        impl Code {
            $(
                #[doc = concat!("MongoDB's code ", stringify!($number) $(, ", `", $name, "`")?, ".")]
                pub const $constant: Self = Self($number);
            )+
        }

        const TABLE: &[Row] = &[$(Row { number: $number, name: codes!(@name $($name)?) }),+];
    };
    (@name) => { None };
    (@name $name:literal) => { Some($name) };
}

table!(codes);

const _: () = assert!(ascend(TABLE), "the lines of the table of codes must ascend by number");

/// Whether the numbers of the lines ascend. The search by number needs it; and a number that stood twice would be two
/// constants for one code.
const fn ascend(rows: &[Row]) -> bool {
    let mut rest = rows;
    while let [first, tail @ ..] = rest {
        if let [second, ..] = tail
            && first.number >= second.number
        {
            return false;
        }
        rest = tail;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_mongodbs_names() {
        assert_eq!(Code::of(2).name(), "BadValue");
        assert_eq!(Code::DUPLICATE_KEY.name(), "DuplicateKey");
        assert_eq!(format!("{:?}", Code::NOT_IMPLEMENTED), "238 NotImplemented");
    }

    #[test]
    fn codes_without_a_name_are_called_by_their_number() {
        assert_eq!(Code::PATTERN_INVALID.name(), "Location51091");
        assert_eq!(Code::of(1_000_000).name(), "Location1000000");
    }
}
