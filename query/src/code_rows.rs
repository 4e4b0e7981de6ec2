//! What the table of error codes is made of: its lines, and the macro that makes a constant and a line of each code.
//!
//! The codes themselves stand in `code`, and nowhere else.

/// A line of the table.
pub(crate) struct Row {
    pub(crate) number: i32,
    /// `None` for a code that MongoDB calls by its number.
    pub(crate) name: Option<&'static str>,
}

/// Whether the numbers of the lines ascend. The search by number needs it; and a number that stood twice would be two
/// constants for one code.
pub(crate) const fn ascend(rows: &[Row]) -> bool {
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

/// Makes a constant and a row of each line, and what codes are printed and compared by.
macro_rules! codes {
    ($($constant:ident = $number:literal $(, $name:literal)?;)+) => {
        impl Code {
            $(
                #[doc = concat!("MongoDB's code ", stringify!($number) $(, ", `", $name, "`")?, ".")]
                pub const $constant: Self = Self($number);
            )+
        }

        impl std::fmt::Debug for Code {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(formatter, "{} {}", self.0, self.name())
            }
        }

        impl PartialEq<i32> for Code {
            fn eq(&self, number: &i32) -> bool {
                self.0 == *number
            }
        }

        const TABLE: &[Row] = &[$(Row { number: $number, name: codes!(@name $($name)?) }),+];
    };
    (@name) => { None };
    (@name $name:literal) => { Some($name) };
}

pub(crate) use codes;
